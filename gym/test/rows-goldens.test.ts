import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { Json, JsonObject } from '../json/exact.js';
import { parseJson } from '../json/exact.js';
import { collectionFiles } from '../collection/files.js';
import { RolloutCollectionConfig } from '../config/schemas.js';
import { materialize, materializedLine } from '../rows/materialize.js';
import type { GymRow } from '../row.js';
import { makeTemporaryDirectory } from '../../lab/bed/temporary-directory.js';
import { comparable } from './golden-values.js';

const FOLDER = fileURLToPath(new URL('../../test/goldens/gym_rows/', import.meta.url));

interface PreprocessCase {
  kind: 'preprocess_rows';
  input_lines: string[] | null;
  config: JsonObject;
  prompt_yaml?: string;
  expected: {
    rows?: JsonObject[];
    materialized_name?: string;
    materialized_lines?: string[];
    warnings?: string[];
    error?: { type: string; message: string };
  };
}

interface Outcome {
  rows: GymRow[] | null;
  error: string | null;
  warnings: string[];
}

async function play(golden: PreprocessCase): Promise<Outcome> {
  const directory = await makeTemporaryDirectory('gym-rows');
  const warnings: string[] = [];
  try {
    const file = path.join(directory.path, 'in.jsonl');
    if (golden.input_lines !== null) {
      await writeFile(file, golden.input_lines.map((line) => `${line}\n`).join(''));
    }
    const given: JsonObject = {
      input_jsonl_fpath: file,
      output_jsonl_fpath: path.join(directory.path, 'out.jsonl'),
      ...golden.config,
    };
    if (golden.prompt_yaml !== undefined) {
      given['prompt_config'] = path.join(directory.path, 'prompt.yaml');
      await writeFile(given['prompt_config'], golden.prompt_yaml);
    }
    const rows = await materialize(RolloutCollectionConfig.parse(given), {
      cwd: directory.path,
      env: {},
      say: () => undefined,
      warn: (text) => void warnings.push(text),
    });
    return { rows, error: null, warnings };
  } catch (error) {
    assert(error instanceof Error);
    return { rows: null, error: error.message.replaceAll(directory.path, 'WORKDIR'), warnings };
  } finally {
    await directory.remove();
  }
}

/** What our error must show: upstream's text, or where we say more, the part that stays. */
function expectedText(message: string, type: string): string {
  // A parser's own words differ; the file and the line do not.
  if (message.startsWith('Malformed JSON')) return message.slice(0, message.indexOf(': ') + 2);
  // Python quotes a KeyError's text; a bare quoted key is named within a sentence by us.
  if (type === 'KeyError' && message.startsWith('"')) return JSON.parse(message) as string;
  return message;
}

describe('every recorded case of row materialisation', () => {
  for (const name of readdirSync(FOLDER).filter((file) => file.endsWith('.json'))) {
    const text = readFileSync(path.join(FOLDER, name), 'utf8');
    const golden = parseJson(text) as unknown as PreprocessCase;
    const { expected } = golden;
    if (expected.error !== undefined) {
      const { message, type } = expected.error;
      test(`${name}: the error is upstream's`, async () => {
        const { error, rows } = await play(golden);
        assert.equal(rows, null);
        const shown = expectedText(message, type);
        assert(error?.includes(shown), `expected ${shown}\ngot ${error ?? 'no error'}`);
      });
      continue;
    }
    test(`${name}: the rows are upstream's, in dispatch order`, async () => {
      const { rows, error, warnings } = await play(golden);
      assert.equal(error, null);
      assert(rows !== null);
      const got = rows.map(({ row }) => comparable(row));
      assert.deepEqual(got, (expected.rows ?? []).map(comparable));
      const lines = rows.slice(0, 3).map((row) => comparable(parseJson(materializedLine(row))));
      const recorded = (expected.materialized_lines ?? []).map((line) =>
        comparable(parseJson(line)),
      );
      assert.deepEqual(lines, recorded);
      assert.deepEqual(warnings, expected.warnings ?? []);
      const { materialized } = collectionFiles('out.jsonl');
      assert.equal(materialized, expected.materialized_name);
      for (const { key, agent, row } of rows) checkStamps({ key, agent, row });
    });
  }
});

/** What the rest of the project reads of a row is what the row says. */
function checkStamps({ key, agent, row }: Pick<GymRow, 'key' | 'agent' | 'row'>): void {
  const { _ng_task_index, _ng_rollout_index, agent_ref } = row as Record<string, Json>;
  assert.deepEqual(comparable([_ng_task_index!, _ng_rollout_index!]), [
    BigInt(key.task),
    BigInt(key.rollout),
  ]);
  assert.equal((agent_ref as JsonObject)['name'], agent);
}
