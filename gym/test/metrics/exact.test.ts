import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { aggregate } from '../../metrics/aggregate.js';
import { addTo, emptySum, pairwiseSum, ratioOf, sumOf } from '../../metrics/statistics/sums.js';
import { itemsOf, membersOf } from '../../../src/platform/json/members.js';
import { PROJECT_ROOT } from '../../../src/platform/project-root.js';
import { makeTemporaryDirectory } from '../../../lab/bed/temporary-directory.js';

const GOLDENS = path.join(PROJECT_ROOT, 'test', 'goldens', 'gym_exact', 'cases.jsonl');
const cases = readFileSync(GOLDENS, 'utf8').trim().split('\n');

/** Python squares by the C library's `pow`. */
const OF_POW = /std_(?:dev|err)_across_runs$|avg_sample_std_dev$/;

/** Every number of a value by its path. */
function* numbersIn(value: unknown, at: string): Generator<[at: string, number: number]> {
  if (typeof value === 'number') yield [at, value];
  if (typeof value !== 'object' || value === null) return;
  for (const [name, member] of Object.entries(value)) yield* numbersIn(member, `${at}/${name}`);
}

describe('metrics that are computed here', () => {
  test('are upstream’s to the last digit: means, spreads, pass@k, majority@k', async (t) => {
    const directory = await makeTemporaryDirectory('exact');
    t.after(directory.remove);
    let compared = 0;
    for (const line of cases) {
      const members = membersOf(line);
      const rows = itemsOf(members?.get('verify_responses') ?? '') ?? [];
      const input = path.join(directory.path, 'in.jsonl');
      await writeFile(input, rows.map((row) => `${row}\n`).join(''));
      const file = await aggregate({
        ...{
          inputs: [input],
          output: path.join(directory.path, 'out.jsonl'),
          answer_key: 'answer',
        },
        urlOf: () => Promise.resolve(null),
        signal: new AbortController().signal,
        report: () => undefined,
      });
      const [own] = JSON.parse(await readFile(file ?? '', 'utf8')) as object[];
      const found = new Map(numbersIn(own, ''));
      for (const [at, value] of numbersIn(JSON.parse(members?.get('expected') ?? ''), '')) {
        const got = found.get(at) ?? Number.NaN;
        const room = OF_POW.test(at) ? Math.abs(value) * 2 ** -50 : 0;
        assert.ok(
          Math.abs(got - value) <= room,
          `${rows.length} rows, ${at}: ${got}, not ${value}`,
        );
        compared += 1;
      }
    }
    assert.ok(compared > 5000, `${compared} numbers`);
  });
});

describe('sums', () => {
  const values = fc.array(fc.double({ min: -1e6, max: 1e6, noNaN: true }), { maxLength: 700 });

  test('of a column with gaps are those of the column with zeros there', () => {
    const cells = fc.array(fc.option(fc.double({ min: -1e6, max: 1e6, noNaN: true })), {
      maxLength: 700,
    });
    fc.assert(
      fc.property(cells, (column) => {
        const size = column.length;
        const there = [...column.keys()].filter((index) => column[index] !== null);
        const sparse = {
          values: Float64Array.from(there, (index) => column[index] ?? 0),
          places: Uint32Array.from(there),
          size,
        };
        const dense = {
          values: Float64Array.from(column, (value) => value ?? 0),
          places: Uint32Array.from(column.keys()),
          size,
        };
        assert.equal(pairwiseSum(sparse), pairwiseSum(dense));
      }),
    );
  });

  test('of Python lose less than an addition after the other', () => {
    const sum = emptySum();
    for (const value of [...Array<number>(10).fill(0.1), 1e100, 1, -1e100])
      addTo(sum, { value, whole: false });
    assert.equal(sumOf(sum), 2);
    fc.assert(
      fc.property(values, (list) => {
        const own = emptySum();
        for (const value of list) addTo(own, { value: Math.round(value), whole: true });
        assert.equal(
          sumOf(own),
          list.reduce((total, value) => total + Math.round(value), 0),
        );
      }),
    );
  });

  test('a ratio of ints is rounded once, however large they are', () => {
    const numbers = fc.tuple(fc.nat(), fc.nat(), fc.bigInt({ min: 1n, max: 2n ** 400n }));
    fc.assert(
      fc.property(numbers, ([a, more, factor]) => {
        const b = a + more + 1;
        assert.equal(ratioOf(BigInt(a) * factor, BigInt(b) * factor), a / b);
      }),
    );
  });
});
