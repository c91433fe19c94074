"""The live view, in four parts.

What is known, and what a person has chosen, pure: `scene`, `snapshot`, `rates`, `state`, `keys`.
The frame, pure: `view`, of `header`, `alerts`, `pages`, `columns`, `tables`, `layout` and `cells`.
What comes in and what it leads to: `intake`, `deeds`, and `fleet`, our ends of the parent's pipes.
What may have to wait, apart from the rest: `gather`, the child that asks the database, and `source`, our
end of it; `display`, Rich on a terminal that may stop reading. Between all of them the loop, `app`.
"""
