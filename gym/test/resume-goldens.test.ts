import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import type { Json, JsonObject } from '../json/exact.js';
import { formatJson, parseJson } from '../json/exact.js';
import { maxAttempts } from '../collection/collect.js';
import type { Resumed } from '../resume/load-from-cache.js';
import { loadFromCache, readMaterialized } from '../resume/load-from-cache.js';
import { comparable } from './golden-values.js';

const FOLDER = new URL('../../test/goldens/gym_resume/', import.meta.url);

/** A string is a raw line. */
type Entry = JsonObject | string;

interface Case {
  kind: string;
  materialized_inputs: Entry[];
  main_jsonl: Entry[];
  failures_jsonl: Entry[] | null;
  environment_variables: Record<string, string>;
  expected: {
    input_rows: JsonObject[];
    done_row_keys: [Json, Json][];
    printed: string[];
    error?: { type: string };
  };
}

interface Outcome extends Resumed {
  printed: string[];
}

const linesOf = (entries: Entry[]): string[] =>
  entries.map((entry) => (typeof entry === 'string' ? entry : formatJson(entry)));

async function play(golden: Case): Promise<Outcome> {
  const printed: string[] = [];
  const max_attempts = maxAttempts(golden.environment_variables, (text) => printed.push(text));
  const { rows } = await readMaterialized(linesOf(golden.materialized_inputs));
  const resumed = await loadFromCache({
    rows,
    main: linesOf(golden.main_jsonl),
    failures: linesOf(golden.failures_jsonl ?? []),
    max_attempts,
  });
  return { ...resumed, printed: [...printed, ...resumed.summary.split('\n')] };
}

function read(name: string): Case {
  return parseJson(readFileSync(new URL(name, FOLDER), 'utf8')) as unknown as Case;
}

/**
 * Upstream fails on these, and the collection can only be resumed once somebody has mended the file by hand. Here the line is passed over
 * and reported: what it stood for is played again, and a result that belongs to no row is left where it is.
 */
const PASSED_OVER: Record<string, { problem: RegExp; left: string[] }> = {
  'main_torn_last_line.json': { problem: /^results, line 2: torn, or no JSON/, left: ['1-0'] },
  'sidecar_torn_line.json': {
    problem: /^failures, line 2: torn, or no JSON/,
    left: ['0-0', '1-0'],
  },
  'result_unknown_key.json': {
    problem: /^results, line 1: a result of 5-0, which is no row of this collection/,
    left: ['0-0'],
  },
  'result_without_keys.json': {
    problem: /^results, line 1: no task and rollout index/,
    left: ['0-0'],
  },
};

describe('every recorded resume from cache', () => {
  const names = readdirSync(FOLDER).filter((name) => name.endsWith('.json'));
  const cases = names.filter((name) => read(name).kind === 'load_from_cache');
  test('there are recordings', () => {
    assert(cases.length > 20);
  });
  for (const name of cases) {
    const golden = read(name);
    const { expected } = golden;
    if (expected.error !== undefined) {
      test(`${name}: what stops upstream is passed over and reported`, async () => {
        const { problem, left } = PASSED_OVER[name]!;
        const { problems, rows } = await play(golden);
        assert.equal(problems.length, 1);
        assert.match(problems[0]!, problem);
        assert.deepEqual(
          rows.map(({ key }) => `${key.task}-${key.rollout}`),
          left,
        );
      });
      continue;
    }
    test(`${name}: the same rows are left, with the same attempts and summary`, async () => {
      const { rows, done, printed } = await play(golden);
      assert.deepEqual(
        rows.map(({ row }) => comparable(row)),
        expected.input_rows.map(comparable),
      );
      for (const { row, attempt_index } of rows) {
        assert.deepEqual(
          comparable(row['_ng_attempt_index'] ?? parseJson('0')),
          BigInt(attempt_index),
        );
      }
      assert.deepEqual(
        done.map(({ task, rollout }) => [BigInt(task), BigInt(rollout)]),
        expected.done_row_keys.map(comparable),
      );
      assert.deepEqual(printed, expected.printed);
    });
  }
});
