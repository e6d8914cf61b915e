"""Dense, slow, obvious versions of what the package computes, to compare with."""
