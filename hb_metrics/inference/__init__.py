"""Models to numbers: torch and accelerate live here and only here."""
