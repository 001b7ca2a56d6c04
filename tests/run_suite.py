"""python run_suite.py SUITE.py, or micropython: the tests of a suite that both interpreters understand, one after the
other."""

import sys


def main(file):
    folder, _, name = file.rpartition("/")
    sys.path.insert(0, folder)
    suite = __import__(name[: -len(".py")])
    passed = failed = 0
    for test in sorted(dir(suite)):
        if test.startswith("test_"):
            try:
                getattr(suite, test)()
                passed += 1
            except Exception as error:
                failed += 1
                print("FAILED", test)
                if hasattr(sys, "print_exception"):
                    sys.print_exception(error)
                else:
                    import traceback

                    traceback.print_exc(file=sys.stdout)
    print(f"{passed} passed, {failed} failed")


if __name__ == "__main__":
    main(sys.argv[1])
