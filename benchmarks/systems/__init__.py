"""The systems that are compared, one module each, behind the same four functions: `use_threads`,
`versions`, `regression` and `classification`. The last two return an `Objective` of
`benchmarks.objective`, or raise NotImplementedError.
"""
