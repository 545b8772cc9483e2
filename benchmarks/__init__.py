"""The engines that lowwater is compared with, and the benchmarks that compare them: `lowwater bench NAME`.

    engine, sliding_engines, join_engines, slide_by_tuple_by_hand    ways to answer
    sliding, slide_by_tuple, flush, join, plans                      benchmarks: rows, questions, ratios
    large_results                                                    3 GiB of results of one shard, a program of its own
    rounds, agreement, footprint, bench                              how they are run, compared, measured and printed

The package stands beside lowwater in the repository and is not installed with it.
"""
