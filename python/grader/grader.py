"""Compares answers with math-verify, one JSON line in, one JSON line out.

    {"id": 7, "gold": "\\boxed{4}", "answer": "so it is \\boxed{2+2}"}
    {"id": 7, "score": 1.0, "extracted_answer": "2 + 2", "last": false}

The configuration is that of NeMo RL's `HFVerifyWorker`: LaTeX from the gold text, expressions and LaTeX from the
answer, six decimals. One difference: running out of time or memory is `{"id": 7, "fault": "timeout" | "memory",
"message": ..}` and never a score. math-verify itself returns False for a timeout, and swallows `MemoryError`.

After a `last` reply the process ends, because an interrupted sympy may be left with half-filled caches. The first line
is `{"ready": true, ..}` with the versions in use. Python 3.10 or later.
"""

import argparse
import json
import logging
import os
import resource
import sys
import time
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "rollout_environment"))
from guard import guarded  # noqa: E402

# Its neighbours are not for others to import.
sys.path.pop(0)

COMPARE_SECONDS = 5  # math-verify's own default, of one comparison as of one parse
TEXT_SECONDS = 2  # as in math-verify's `math_metric`
BYTES_AT_MOST = 1536 * 2**20  # of address space
TEXT_AT_MOST = 65536  # characters of an extracted answer; a longer one is not worth its way
MEBIBYTES_SUSPECT = 512  # resident; an ordinary check stays below 100


class OutOfTime(Exception):
    pass


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--parent", type=int, required=True)
    options.add_argument("--compare-seconds", type=int, default=COMPARE_SECONDS)
    options.add_argument("--suspect-mib", type=int, default=MEBIBYTES_SUSPECT)
    given = options.parse_args()
    suspect = given.suspect_mib * 2**20
    # Also in the middle of a check, when nobody reads stdin.
    guarded(parent=given.parent)
    limit(resource.RLIMIT_AS, BYTES_AT_MOST)
    limit(resource.RLIMIT_CORE, 0)

    # Output of libraries must not get between the replies.
    replies = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)

    def reply(value):
        data = json.dumps(value).encode() + b"\n"
        while data:
            data = data[replies.write(data) :]

    compare = load(given.compare_seconds)
    reply({"ready": True, "math_verify": version("math-verify"), "sympy": version("sympy")})
    for line in sys.stdin.buffer:
        job = json.loads(line)
        answer = check(compare, job, suspect)
        last = "fault" in answer or peak_bytes() > suspect
        reply({"id": job["id"], **answer, "last": last})
        if last:
            break


def check(compare, job, suspect):
    try:
        score, extracted = compare(job["gold"], job["answer"])
    except OutOfTime as late:
        return {"fault": "timeout", "message": str(late)}
    # math-verify counts a comparison that ran out of memory as "not equal".
    if score == 0 and peak_bytes() > suspect:
        return {"fault": "memory", "message": f"more than {suspect // 2**20} MiB"}
    return {"score": score, "extracted_answer": extracted}


def load(compare_seconds):
    logging.getLogger("math_verify").setLevel(logging.CRITICAL)
    from math_verify import parse, verify
    from math_verify.errors import TimeoutException
    from math_verify.parser import ExprExtractionConfig, LatexExtractionConfig
    from math_verify.utils import timeout

    gold_targets = (LatexExtractionConfig(),)
    answer_targets = (ExprExtractionConfig(), LatexExtractionConfig())

    def within(seconds, what, work):
        """Detects by the clock an alarm that a library swallowed."""
        started = time.monotonic()
        try:
            result = work()
        except TimeoutException:
            raise OutOfTime(f"{what} took more than {seconds} s") from None
        if time.monotonic() - started >= seconds and not result:
            raise OutOfTime(f"{what} took more than {seconds} s")
        return result

    def parsed(text, targets, what):
        def work():
            try:
                return parse(text, targets, raise_on_error=True, parsing_timeout=compare_seconds)
            except Exception:
                return []  # a malformed text holds no answer

        return within(compare_seconds, f"parsing the {what}", work)

    def equal(gold, answer):
        def work():
            try:
                return verify(gold, answer, 6, timeout_seconds=compare_seconds, raise_on_error=True)
            except Exception:
                return False

        return within(compare_seconds, "comparing", work)

    def any_equal(golds, answers):
        """One equal pair decides; a pair that took too long leaves "not equal" unknown."""
        late = None
        for gold in golds:
            for answer in answers:
                try:
                    if equal(gold, answer):
                        return True
                except OutOfTime as error:
                    late = error
        if late is not None:
            raise late
        return False

    def compare(gold_text, answer_text):
        answers = parsed(answer_text, answer_targets, "answer")
        golds = parsed(gold_text, gold_targets, "ground truth")
        if not golds:
            return 0.0, None
        try:
            texts = timeout(TEXT_SECONDS)(lambda: ([str(g) for g in golds], [str(a) for a in answers]))()
        except TimeoutException:
            texts = None  # the texts are for people; the comparison continues, as upstream's
        except Exception:
            return 0.0, None  # such as an integer of more than 4,300 digits: 0 upstream
        score = 1.0 if any_equal(golds, answers) else 0.0
        return score, None if texts is None else extracted_answer(*texts)

    return compare


def extracted_answer(golds, answers):
    """The first text that equals the gold's, else the first; None if there is none, or only a huge one."""
    same = {text.strip() for text in golds} - {""}
    found = next((text for text in answers if text.strip() in same), answers[0] if answers else None)
    return None if found is None or len(found) > TEXT_AT_MOST else found


def limit(kind, amount):
    try:
        resource.setrlimit(kind, (amount, amount))
    except (ValueError, OSError):
        pass  # macOS refuses some, a stricter limit of the user stays


def peak_bytes():
    """This program's own usage; `ru_maxrss` on Linux begins with what the parent had before exec."""
    try:
        with open("/proc/self/status") as status:
            for line in status:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    main()
