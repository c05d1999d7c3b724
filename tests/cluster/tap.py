"""tap.py - what a script has checked, a line each (TAP)"""
import sys

count = failed = 0


def check(name, good, detail=""):
    """One check; detail is shown where it has failed."""
    global count, failed
    count += 1
    failed += not good
    print("%sok %d - %s" % ("" if good else "not ", count, name), flush=True)
    for line in [] if good else str(detail).splitlines():
        print("# " + line)


def end():
    """The plan; ends the script."""
    print(f"1..{count}")
    sys.exit(failed > 0)
