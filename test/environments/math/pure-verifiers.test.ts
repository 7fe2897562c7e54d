import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  lastBoxed,
  normalizeFinalAnswer,
  verifyDapo,
} from '../../../src/environments/math/dapo.js';
import { verifyMultiReward } from '../../../src/environments/math/multi-reward.js';
import {
  normalizeLetter,
  normalizeResponse,
  verifyEnglishMultichoice,
  verifyMultilingualMultichoice,
} from '../../../src/environments/math/multichoice.js';
import type { PureVerifier, Verdict } from '../../../src/environments/math/verifier.js';
import { rejectionOf } from '../../fakes/environment-steps.js';
import { readGolden, readGoldens } from '../goldens.js';
import { processorTime_ms } from '../../harness/processor-time.js';

interface Changed {
  input: string;
  output: string | null;
}

interface Judged {
  cases: {
    response: string;
    ground_truth: string;
    score: number;
    extracted_answer: string | null;
  }[];
}

const verdict = (verify: PureVerifier, [response, ground_truth]: [string, unknown]): Verdict =>
  verify({ response, ground_truth });

describe('dapo_math_verify', () => {
  interface Scored {
    cases: {
      response: string;
      ground_truth: string;
      result: { score: number; pred: string };
      env_score: number;
      env_extracted_answer: string;
    }[];
  }
  for (const [name, { cases }] of readGoldens<Scored>('dapo', 'verify_')) {
    test(`judges as upstream’s in ${name}`, () => {
      for (const { response, ground_truth, result, env_score, env_extracted_answer } of cases) {
        const got = verdict(verifyDapo, [response, ground_truth]);
        assert.deepEqual(got, { score: result.score, extracted_answer: result.pred });
        assert.deepEqual(got, { score: env_score, extracted_answer: env_extracted_answer });
      }
    });
  }

  for (const [name, { cases }] of readGoldens<{ cases: Changed[] }>('dapo', 'normalize_')) {
    test(`brings answers into upstream’s form in ${name}`, () => {
      for (const { input, output } of cases) assert.equal(normalizeFinalAnswer(input), output);
    });
  }

  test('finds the last box as upstream’s', () => {
    const { cases } = readGolden('dapo', 'last_boxed') as { cases: Changed[] };
    for (const { input, output } of cases) assert.equal(lastBoxed(input), output);
  });

  /** What upstream's code answers, where Python's patterns, white space and digits are not JavaScript's. */
  const pythonic: [response: string, answer: string][] = [
    ['Anſwer\x1c:\x85x', 'x'],
    ['Answer\ufeff: x', '[INVALID]'],
    ['Answer: \\text{a\rb}\u2028', 'a\rb'],
    ['Answer: ²,③', '²③'],
    ['Answer: 1,½', '1,½'],
    ['Answer: $x$ y $z$', 'x'],
    ['Answer: frac😀é', 'frac{😀}{é}'],
    [`Answer: 5${'😀'.repeat(291)}`, `5${'😀'.repeat(291)}`],
    [`Answer: 5${'😀'.repeat(292)}`, '[INVALID]'],
  ];
  for (const [response, answer] of pythonic) {
    test(`reads ${JSON.stringify(response.slice(0, 29))} (${response.length} units) as Python does`, () => {
      assert.equal(verdict(verifyDapo, [response, '']).extracted_answer, answer);
    });
  }
});

describe('english_multichoice', () => {
  for (const [name, { cases }] of readGoldens<Judged>('multichoice', 'english_')) {
    test(`judges as upstream’s in ${name}`, () => {
      for (const { response, ground_truth, score, extracted_answer } of cases)
        assert.deepEqual(verdict(verifyEnglishMultichoice, [response, ground_truth]), {
          score,
          extracted_answer,
        });
    });
  }

  test('takes the first letter, in the case that it has, Python’s four others among them', () => {
    const answers = [
      'Answer: b. Answer: C',
      'Answer: ı',
      'Answer: İ',
      'Answer: \u212a',
      'Answer\u3000: D',
      'Answer\ufeff: D',
    ];
    assert.deepEqual(
      answers.map(
        (response) => verdict(verifyEnglishMultichoice, [response, 'B']).extracted_answer,
      ),
      ['b', 'ı', 'İ', '\u212a', 'D', null],
    );
    assert.equal(verdict(verifyEnglishMultichoice, ['Answer: b', 'B']).score, 0);
  });
});

describe('multilingual_multichoice', () => {
  for (const [name, { cases }] of readGoldens<Judged>('multichoice', 'multilingual_')) {
    test(`judges as upstream’s in ${name}`, () => {
      for (const { response, ground_truth, score, extracted_answer } of cases)
        assert.deepEqual(verdict(verifyMultilingualMultichoice, [response, ground_truth]), {
          score,
          extracted_answer,
        });
    });
  }

  test('looks for languages in upstream’s order, not for the first in the text', () => {
    const response = 'Respuesta: B. Antwort: C. 답: D';
    assert.equal(verdict(verifyMultilingualMultichoice, [response, 'C']).score, 1);
  });

  test('ignores case as Python does: the dotless i is one', () => {
    for (const response of ['RİSPOSTA: A', 'rısposta: A', 'ÀDÁHÙN :A'])
      assert.equal(verdict(verifyMultilingualMultichoice, [response, 'A']).score, 1, response);
  });

  test('normalizes responses and letters as upstream’s', () => {
    const golden = readGolden('multichoice', 'normalize') as Record<string, Changed[]>;
    for (const { input, output } of golden['normalize_response']!)
      assert.equal(normalizeResponse(input), output);
    for (const { input, output } of golden['normalize_extracted_answer']!)
      assert.equal(normalizeLetter(input), output);
  });
});

test('multi_reward gives upstream’s three components', () => {
  const { cases } = readGolden('math', 'multi_reward') as {
    cases: {
      response: string;
      ground_truth: string;
      scores: Record<string, number>;
      extracted_answer: string;
    }[];
  };
  for (const { response, ground_truth, scores, extracted_answer } of cases)
    assert.deepEqual(verdict(verifyMultiReward, [response, ground_truth]), {
      score: scores,
      extracted_answer,
    });
});

describe('every text verifier', () => {
  const verifiers = {
    dapo_math_verify: verifyDapo,
    english_multichoice: verifyEnglishMultichoice,
    multilingual_multichoice: verifyMultilingualMultichoice,
    multi_reward: verifyMultiReward,
  };
  const megabyte = 2 ** 20;
  /** Each makes a naive pattern look at every place from every place. */
  const long = [
    'a',
    ' ',
    '\n',
    '$',
    '\\text{',
    '\\boxed{',
    'Answer',
    'Answer: ',
    'Answer ',
    '<answer>',
    '<think></think>\n',
    '=',
    '}',
    '1,',
    'frac',
    'sqrt',
  ].map((text) => text.repeat(megabyte / text.length));

  for (const [name, verify] of Object.entries(verifiers)) {
    test(`${name} rejects a ground truth that is missing or no text, by its name`, async () => {
      for (const [ground_truth, got] of [
        [undefined, 'nothing'],
        [4, '4'],
        [null, 'null'],
        [['A'], '["A"]'],
      ] as const) {
        const rejection = rejectionOf(
          Promise.resolve().then(() => verdict(verify, ['Answer: A', ground_truth])),
        );
        assert.equal(await rejection, `${name}: ground_truth: expected a string, got ${got}`);
      }
    });

    test(`${name} judges a response and a ground truth of a megabyte in a moment`, () => {
      for (const text of long) {
        const began = processorTime_ms();
        verdict(verify, [text, text]);
        const took = processorTime_ms() - began;
        assert.ok(took < 2000, `${JSON.stringify(text.slice(0, 10))}…: ${took} ms`);
      }
    });
  }
});
