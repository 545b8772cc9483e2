"""The engines that lowwater is compared with, and the benchmarks that compare them: `lowwater bench NAME`.

    engine, sliding_engines, join_engines, slide_by_tuple_by_hand    the engines
    sliding, slide_by_tuple, flush, join, plans                      the benchmarks: rows, queries, ratios
    large_results                                                    a separate program: 3 GiB of results of one shard
    live_choice                                                      another: AdaptWID chosen and left while running
    rounds, agreement, footprint, bench                              run, compare, measure and print them

The package is in the repository next to lowwater and is not installed with it.
"""
