"""Orders that are not paid within an hour, by a left join. An order is emitted alone when no payment can come any more.

Prints:

    after the first payments: [('a', 20)]
    an hour later: [('b', None)]
    at the end: [('c', None)]
    read 7 rows, 1 late: payment for a
"""

import pyarrow as pa

import lowwater as lw

ORDER = pa.schema([("minute", pa.int64()), ("order", pa.string())])
PAYMENT = pa.schema([("minute", pa.int64()), ("order", pa.string()), ("cents", pa.int64())])

orders = lw.stream(ORDER.empty_table(), name="orders", progress="minute", disorder=5)
payments = lw.stream(PAYMENT.empty_table(), name="payments", progress="minute", disorder=10)
query = orders.join(payments, on="order", within=(0, 60), how="left").start()


def pairs(rows: pa.Table) -> list[tuple[str, int | None]]:
    return [(row["order"], row["payments_minute"]) for row in rows.to_pylist()]


query.push([{"minute": 3, "order": "a"}, {"minute": 10, "order": "b"}], port=0)
paid = [{"minute": 20, "order": "a", "cents": 990}, {"minute": 15, "order": "x", "cents": 5}]
print("after the first payments:", pairs(query.push(paid, port=1)))
query.push([{"minute": 90, "order": "c"}], port=0)
print("an hour later:", pairs(query.push([{"minute": 81, "order": "y", "cents": 100}], port=1)))
query.push([{"minute": 30, "order": "a", "cents": 1}], port=1)  # payments have progressed to 81 - 10
print("at the end:", pairs(query.finish()))
late = query.late_output().to_pylist()[0]
m = query.metrics()
print(f"read {m.rows} rows, {m.late_rows} late: {late['input'].removesuffix('s')} for {late['order']}")
