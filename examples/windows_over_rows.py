"""Windows that are defined by rows, correct under disorder: the row at 4 comes last and still gets its place.

There are two sellers; the output shows the first.

Prints:

    the last 2 sales of each:         [(1, 5), (2, 8), (3, 4), (4, 8), (5, 7)]
    the last 6 ticks at each sale:    [(1, 5), (4, 8), (6, 9), (12, 7)]
    sales less than 4 ticks apart:    [(1, 10, [5, 3, 1]), (12, 16, [7])]
    each sale and the total so far:   [(1, 5, 5), (4, 3, 8), (6, 1, 9), (12, 7, 16)]
"""

import pyarrow as pa

import lowwater as lw

rows = pa.table({"at": [1, 6, 3, 12, 9, 4], "who": ["a", "a", "b", "a", "b", "a"], "amount": [5, 1, 2, 7, 4, 3]})
stream = lw.stream(rows, name="sales", progress="at", disorder=10)


def show(title: str, query: lw.Query, columns: list[str]) -> None:
    rows = [row for row in query.collect().to_pylist() if row["who"] == "a"]
    print(f"{title:33}", [tuple(row[name] for name in columns) for row in rows])


last_two = stream.window("2 rows", "1 row", partition_by="who").agg(total=lw.sum("amount"))
show("the last 2 sales of each:", last_two, ["window_end", "total"])
recent = stream.window(6, "1 row", partition_by="who").agg(total=lw.sum("amount"))
show("the last 6 ticks at each sale:", recent, ["window_end", "total"])
sessions = stream.session(gap=4).group_by("who").agg(n=lw.count(), values=lw.collect_list("amount"))
show("sales less than 4 ticks apart:", sessions, ["window_start", "window_end", "values"])
running = stream.over("who", rows=(None, 0)).agg(so_far=lw.sum("amount"))
show("each sale and the total so far:", running, ["at", "amount", "so_far"])
