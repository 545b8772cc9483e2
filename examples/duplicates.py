"""Payments that a gateway sends twice: of those with the same id within ten minutes, only the first in time remains.

"First" is by the time in the row, not by arrival: the copy with minute 3 comes last and still wins.

Prints:

    minute  id  cents
         2  p1    500
         3  p2    120
        20  p1    500
    5 rows read, 3 payments
"""

import pyarrow as pa

import lowwater as lw

payments = pa.table(
    {"minute": [2, 4, 6, 20, 3], "id": ["p1", "p1", "p2", "p1", "p2"], "cents": [500, 500, 120, 500, 120]}
)
stream = lw.stream(payments, name="payments", progress="minute", disorder=20)
once = stream.drop_duplicates(on="id", within=10)
once.show()
print(payments.num_rows, "rows read,", once.collect().num_rows, "payments")
