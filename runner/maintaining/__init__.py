"""What the maintainer is made of: whom it wakes, how it hears of work, and how it looks for it."""
