import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { parseCollect, parseE2E } from '../config/collect-config.js';
import { RolloutCollectionConfig } from '../config/schemas.js';
import type { Json, JsonObject } from '../json/exact.js';
import { formatJson, isObject, parseJson } from '../json/exact.js';
import { materialize } from '../rows/materialize.js';
import type { TemporaryDirectory } from '../../lab/bed/temporary-directory.js';
import { makeTemporaryDirectory } from '../../lab/bed/temporary-directory.js';
import { comparable } from './golden-values.js';

interface Recorded {
  value?: JsonObject;
  error?: string;
}

/** A configuration or the arguments of a command line, and what rows get by each of upstream's ways. */
type Case = [
  given: JsonObject | string[],
  recorded: { collect: Recorded; e2e: Recorded; rows?: Recorded },
];

const CASES = parseJson(
  readFileSync(
    new URL('../../test/goldens/gym_config/create-params.json', import.meta.url),
    'utf8',
  ),
) as unknown as Case[];

const ENV = { PARAMS_T: '0.25' };
const ROW = '{"responses_create_params": {"input": "a"}, "agent_ref": {"name": "x"}}\n';
const FILES = { input_jsonl_fpath: 'in.jsonl', output_jsonl_fpath: 'out.jsonl' };

let directory: TemporaryDirectory;
before(async () => {
  directory = await makeTemporaryDirectory('create-params');
  await writeFile(path.join(directory.path, 'in.jsonl'), ROW);
});
after(() => directory.remove());

/** The parameters of the only row, without its input. */
async function paramsOf(config: RolloutCollectionConfig, cwd: string): Promise<Json> {
  const ignore = () => undefined;
  const input_jsonl_fpath = path.join(directory.path, config.input_jsonl_fpath);
  const rows = await materialize(
    { ...config, input_jsonl_fpath },
    { cwd, env: ENV, say: ignore, warn: ignore },
  );
  const params = rows[0]?.row['responses_create_params'];
  assert(params !== undefined && isObject(params));
  return Object.fromEntries(Object.entries(params).filter(([name]) => name !== 'input'));
}

type Way = (args: string[], cwd: string) => Promise<Json>;

const collect: Way = async (args, cwd) => {
  const own = ['--input', FILES.input_jsonl_fpath, '--output', FILES.output_jsonl_fpath];
  const { config } = await parseCollect({ args: [...own, ...args], cwd, env: ENV });
  return await paramsOf(config, cwd);
};

const e2e: Way = async (args, cwd) => {
  const own = ['--split', 'train', '--output', FILES.output_jsonl_fpath];
  const { config } = await parseE2E({ args: [...own, ...args], cwd, env: ENV });
  return await paramsOf({ ...config, input_jsonl_fpath: FILES.input_jsonl_fpath }, cwd);
};

async function assertAsRecorded(found: Promise<Json>, { value, error }: Recorded): Promise<void> {
  const outcome = await found.catch((problem: unknown) => {
    assert.notEqual(error, undefined, String(problem));
    return null;
  });
  if (outcome === null) return;
  assert.ok(value !== undefined, `expected ${error ?? 'an error'}, got ${formatJson(outcome)}`);
  assert.deepEqual(comparable(outcome), comparable(value));
}

const outcomeOf = ({ error }: Recorded): string => error ?? 'the value';

describe("overrides of responses_create_params are in rows as upstream's commands put them there", () => {
  for (const [index, [given, recorded]] of CASES.entries()) {
    for (const [name, way] of [['collect', collect] as const, ['e2e', e2e] as const]) {
      const expected = recorded[name];
      const title = `${formatJson(given)}, ${name}: ${outcomeOf(expected)} is as recorded`;
      if (Array.isArray(given)) {
        test(title, () => assertAsRecorded(way(given, directory.path), expected));
        continue;
      }
      const file = `${index}.yaml`;
      test(`${title}, from a file of config_paths`, async () => {
        await writeFile(path.join(directory.path, file), formatJson(given));
        await assertAsRecorded(way([`+config_paths=[${file}]`], directory.path), expected);
      });
      test(`${title}, from env.yaml`, async (t) => {
        const own = await makeTemporaryDirectory('create-params-env');
        t.after(own.remove);
        await writeFile(path.join(own.path, 'env.yaml'), formatJson(given));
        await assertAsRecorded(way([], own.path), expected);
      });
    }
    const { rows } = recorded;
    if (rows === undefined || Array.isArray(given)) continue;
    test(`${formatJson(given)}, given to the rows alone: ${outcomeOf(rows)} is as recorded`, async () => {
      const { responses_create_params } = given;
      const config = RolloutCollectionConfig.parse({ ...FILES, responses_create_params });
      await assertAsRecorded(paramsOf(config, directory.path), rows);
    });
  }
});
