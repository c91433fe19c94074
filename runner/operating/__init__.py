"""What an operator is told: one true sentence, the board of what to fix, and stubs to begin with."""
