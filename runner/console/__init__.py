"""The live view: what is pure (`rates`, `state`, `keys`, `layout`, `view` and its parts), the child that
asks the database (`gather`, `source`), and the loop between them and the terminal (`app`)."""
