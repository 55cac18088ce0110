"""What nodes ask for, in numbers and formulas: each emitter has its own operators for it."""
