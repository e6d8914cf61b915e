"""Speed against the floor that BLAS sets in the same process. Never part of CI."""
