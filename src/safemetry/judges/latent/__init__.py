"""What models say of judges without gold."""
