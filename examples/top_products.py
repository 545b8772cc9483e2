"""The three products of each category with the largest revenue per hour: a window over the results of a window.

Prints:

    window_start  category  top
               0  books     atlas 50, novel 35, comic 8
               0  toys      robot 20
              60  books     novel 9
"""

import pyarrow as pa

import lowwater as lw

sales = pa.table(
    {
        "minute": [2, 50, 31, 5, 12, 70, 44, 20],
        "category": ["books", "books", "books", "toys", "books", "books", "books", "books"],
        "product": ["novel", "atlas", "novel", "robot", "comic", "novel", "atlas", "poem"],
        "price": [20, 25, 15, 20, 8, 9, 25, 5],
    }
)
stream = lw.stream(sales, name="sales", progress="minute", disorder=60)
revenue = stream.window(60).group_by(["category", "product"]).agg(revenue=lw.sum("price"))
top = revenue.window(60).group_by("category").agg(top=lw.top_k("revenue", 3, label="product"))
print("window_start  category  top")
for row in top.collect().to_pylist():
    products = ", ".join(f"{one['product']} {one['revenue']}" for one in row["top"])
    print(f"{row['window_start']:12}  {row['category']:8}  {products}")
