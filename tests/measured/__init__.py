"""What the tests protect: coverage by tier, and mutations that they have to notice."""
