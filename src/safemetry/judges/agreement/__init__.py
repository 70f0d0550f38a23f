"""How far judges agree: with each other, with gold, and with what people manage."""
