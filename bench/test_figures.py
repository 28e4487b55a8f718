"""What is computed from sections and rounds."""
import unittest

from figures import Runs, figures, spread, us


def section(contender, start):
    return (contender, start, start, start + 5, start + 10)


class Figures(unittest.TestCase):
    def test_grants_of_two_sessions_count_from_when_both_have_held(self):
        alone = [section(0, 10 * i) for i in range(50)]
        both = [section(2, 1000), section(1, 1010), section(3, 1020), section(0, 1030), section(2, 1040)]
        result = figures("two", alone + both, {}, [None, None])
        self.assertEqual((result["luckiest"], result["unluckiest"], result["luck"]), (3, 2, 1.5))

    def test_a_rate_is_that_of_the_seconds_after_the_first_one(self):
        second = 10**9
        fast = [section(0, i * second // 100) for i in range(100)]
        slow = [section(0, second + i * second // 2) for i in range(7)]
        result = figures("sessions", fast + slow, {}, [None, None])
        self.assertEqual((result["grants_s"], result["slowest_s"]), (2, 2))

    def test_a_driver_counts_more_than_it_prints(self):
        facts = {"second_0": 900, "second_1": 400, "second_2": 100, "grants_0": 800, "grants_1": 600, "requests": 2800}
        result = figures("threads", [section(0, 0), section(1, 10)], facts, [None, None])
        self.assertEqual((result["grants_s"], result["slowest_s"], result["luckiest"], result["unluckiest"]), (250, 100, 800, 600))
        self.assertEqual(result["requests_each"], 2)

    def test_sections_that_overlap_are_counted(self):
        self.assertEqual(figures("sessions", [section(0, 0), section(1, 3)], {}, [None, None])["overlaps"], 1)

    def test_ratios_are_taken_within_a_round(self):
        runs = Runs()
        for number, (one, other) in enumerate([(1, 2), (30, 20)]):
            runs.add("job", "one", "place", number, {"figure": one})
            runs.add("job", "other", "place", number, {"figure": other})
        runs.add("job", "one", "place", 9, {"figure": 5})  # the other was not measured then
        self.assertEqual(runs.ratios("job", "one", "other", "figure", "place"), [0.5, 1.5])

    def test_counters_are_read_where_a_driver_says(self):
        looks = [None, {"received": 7, "sent": 9, "zxid": 2}, {"received": 17, "sent": 22, "zxid": 6}, None]
        result = figures("waiters2", [], {}, looks)
        self.assertEqual((result["requests"], result["events"], result["writes"]), (10, 3, 4))

    def test_a_spread_is_median_and_quartiles(self):
        self.assertEqual(spread([400, 500, 600, 700, 12000], us), "600 us (500 to 700)")
        self.assertEqual(spread([500, 9000, 12000, 13000], us), "10.5 ms (9,000 us to 13.0 ms)")
        self.assertEqual(spread([2, 2, 2], "{:.1f} x"), "2.0 x")
        self.assertEqual(spread([float("nan")]), "-")


if __name__ == "__main__":
    unittest.main()
