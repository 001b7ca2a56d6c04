"""What spark-submit is given instead of the `vicinal` command, as it wants a file that ends in .py:

spark-submit --master spark://head:7077 "$(vicinal spark submit-file)" spark traffic --path b1.log --out tables
"""

from vicinal_tools.main import main

if __name__ == "__main__":
    main()
