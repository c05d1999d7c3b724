#!/usr/bin/env python3
"""compare_test.py TFDC: what of the comparison needs no peer.

Cases and their sizes, flops, the tables; that tfdc accepts every model, also with drawn sizes.
"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

import models
import report

HERE = pathlib.Path(__file__).resolve().parent
TFDC = sys.argv.pop(1)


def row(peer, seconds, **changes):
    return {"peer": peer, "version": peer + " 1.0", "seconds_min": seconds, "seconds_median": seconds,
            "memory_bytes": 1e6, "first_step_seconds": {"cold": 2.0}, "of_peak": 0.5,
            "compile_seconds": {"cold": 1.0, "warm": 0.5}, "model": "mlp", "changed": "", "threads": 1,
            "replicas": 1, "flops": 1e9, "peak_flops": 1e11, **changes}


ROWS = [row("tfd", 0.5e-3), row("JAX", 2e-3), row("PyTorch", 1e-3), row("tfd", 0.2, threads=2),
        {"peer": "JAX", "error": "broken", "model": "mlp", "changed": "", "threads": 2, "replicas": 1,
         "flops": 1e9, "peak_flops": 1e11}]


class Cases(unittest.TestCase):
    def test_sizes_are_those_of_the_files(self):
        for name, model in models.MODELS.items():
            text = (HERE / f"{model.file or name}.tfd").read_text()
            for key, value in model.sizes.items():
                expected = "false" if key == "BF16" else value
                self.assertIn(f"const {key} = {expected}\n", text, name)

    def test_parse(self):
        case = models.parse_case("mlp:WIDTH=64,BATCH=8", quick=False)
        self.assertEqual(case.sizes, {"IN": 784, "WIDTH": 64, "CLASSES": 10, "BATCH": 8})
        self.assertEqual(case.changed(), "WIDTH=64,BATCH=8")
        self.assertEqual(models.parse_case("gpt", quick=True).sizes["LAYERS"], 1)
        for wrong in ("perceptron", "mlp:DEPTH=3", "mlp:WIDTH", "mlp:WIDTH=0", "mlp:WIDTH=-1"):
            with self.assertRaises(ValueError):
                models.parse_case(wrong, quick=False)

    def test_draws_repeat(self):
        first = models.draw_cases(40, seed=7)
        self.assertEqual(first, models.draw_cases(40, seed=7))
        self.assertNotEqual(first, models.draw_cases(40, seed=8))
        self.assertTrue(all(case.sizes["BATCH"] % 2 == 0 for case in first))

    def test_tfdc_accepts_all(self):
        cases = [models.parse_case(name, quick=True) for name in {**models.MODELS, **models.OPERATIONS}]
        with tempfile.TemporaryDirectory() as folder:
            for case in cases + models.draw_cases(4, seed=1):
                path = pathlib.Path(folder) / "model.tfd"
                path.write_text(models.text_of(case))
                defines = [o for k, v in case.sizes.items() for o in ("-D", f"{k}={v}")]
                done = subprocess.run([TFDC, path, *defines, "--to", "ir", "-o", f"{folder}/ir"],
                                      capture_output=True, text=True, check=False)
                self.assertEqual((done.returncode, done.stderr), (0, ""), case)


class Flops(unittest.TestCase):
    def flops(self, text):
        case = models.parse_case(text, quick=False)
        return models.step_flops(case.model, case.sizes)

    def test_by_hand(self):
        # x of 2 x 3 times w of 3 x 1, and its transpose times dy; nothing flows to x.
        self.assertEqual(self.flops("linear:IN=3,BATCH=2"), 2 * (2 * 2 * 3))
        self.assertEqual(self.flops("mlp:IN=3,WIDTH=5,CLASSES=7,BATCH=2"),
                         2 * (2 * 2 * 3 * 5) + 3 * (2 * 2 * 5 * 5 + 2 * 2 * 5 * 7))
        self.assertEqual(self.flops("attention:T=8,HEADS=2,D=4,BATCH=2"), 3 * 2 * (2 * 2 * 8 * 8 * 8))
        # one gate product of x, one of h, for 4 gates and each of 3 steps; the classes.
        self.assertEqual(self.flops("lstm:N=4,S=3,LAYERS=1,CLASSES=5,BATCH=2"),
                         (2 + 3) * (2 * 2 * 3 * 4 * 16) + 3 * (2 * 2 * 4 * 5))

    def test_gpt_is_six_for_each_weight_and_token(self):
        weights = 4 * 12 * 768 * 768 + 768 * 8192
        attention = 4 * 12 * 4 * 256 * 256 * 768
        self.assertEqual(self.flops("gpt"), 6 * 1024 * weights + attention)

    def test_resnet_is_the_known_number(self):
        # 0.56 billion multiply-adds forward for 32 x 32, without the head.
        self.assertAlmostEqual(self.flops("resnet18:BATCH=2") / 2 / 6e9, 0.5552, places=3)


class Report(unittest.TestCase):
    def test_ratio_is_that_to_the_best_peer(self):
        one, two = report.grouped(ROWS)
        self.assertEqual(report.ratio(one), 0.5)
        self.assertIsNone(report.ratio(two))

    def test_summary_begins_with_the_slowest(self):
        slow = [row("tfd", 3e-3, model="gpt"), row("JAX", 2e-3, model="gpt")]
        lines = report.summary(ROWS + slow).splitlines()[2:]
        self.assertEqual([line.split()[:2] for line in lines], [["gpt", "1.50"], ["mlp", "0.50"]])

    def test_milliseconds(self):
        self.assertEqual([report.milliseconds(s) for s in (9.4e-6, 1.234e-3, 0.05234, 0.5234, 5.2)],
                         ["0.0094", "1.23", "52.3", "523", "5200"])

    def test_page(self):
        found = {"command": "tests/bench/compare mlp", "date": "today", "cores": 2, "machine": "M",
                 "rounds": 5, "rows": ROWS}
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "page.md"
            path.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
            for _ in range(2):
                report.write_page(path, [{**found, "rows": [row("tfd", 9.0)]}, found])
            text = path.read_text()
            self.assertTrue(text.startswith("before\n") and text.endswith("after\n"))
            self.assertNotIn("old", text)
            self.assertIn("| mlp | 1 | 0.5 | 2.00 | 1.00 | 0.50 | 50 |", text)
            self.assertIn("- mlp, 2 threads: JAX: broken", text)
            svg = (path.parent / "compare.svg").read_text()
            self.assertIn(">4.00</text>", svg)
            path.write_text("no place")
            with self.assertRaises(SystemExit):
                report.write_page(path, [{**found, "rows": [row("tfd", 9.0)]}, found])


if __name__ == "__main__":
    unittest.main()
