"""Speed against the floor that BLAS sets in the same process, and beside other packages
(`peers`). Never part of CI.
"""
