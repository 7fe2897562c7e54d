import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { RolloutCollectionConfig } from '../config/schemas.js';
import { sampleOf } from '../collection/start/batch-request.js';
import { materialize } from '../rows/materialize.js';
import type { GymRow } from '../row.js';
import { rolloutName } from '../row.js';
import { skillsRef } from '../rows/skills.js';
import type { Json, JsonObject } from '../json/exact.js';
import { formatJson, jsonNumber, parseJson } from '../json/exact.js';
import type { TemporaryDirectory } from '../../lab/bed/temporary-directory.js';
import { makeTemporaryDirectory } from '../../lab/bed/temporary-directory.js';
import { comparable } from './golden-values.js';

let directory: TemporaryDirectory;
before(async () => {
  directory = await makeTemporaryDirectory('gym-materialize');
});
after(() => directory.remove());

const ROW = '{"responses_create_params": {"input": "q"}}';

const said: string[] = [];

async function rowsOf(text: string, config: JsonObject = {}): Promise<GymRow[]> {
  await writeFile(path.join(directory.path, 'in.jsonl'), text);
  const given = {
    input_jsonl_fpath: 'in.jsonl',
    output_jsonl_fpath: 'out.jsonl',
    agent_name: 'ag',
    ...config,
  };
  return materialize(RolloutCollectionConfig.parse(given), {
    cwd: directory.path,
    env: {},
    say: (line) => void said.push(line),
    warn: () => undefined,
  });
}

const json = (text: string): Json => parseJson(text);

describe('rows', () => {
  test('a missing input file is named', async () => {
    await assert.rejects(rowsOf('', { input_jsonl_fpath: 'no.jsonl' }), {
      message:
        /^Input file not found: 'no\.jsonl' \(--input\)\. Check the path is spelled correctly\. Looked in \/.*--search-dir DIR or in NEMO_GYM_EXTRA_ROOTS\.$/,
    });
  });

  test('two lines of one text are one task, but a last line without an end is its own, as upstream numbers them', async () => {
    const keys = async (text: string) => (await rowsOf(text)).map(({ key }) => rolloutName(key));
    assert.deepEqual(await keys(`${ROW}\r\n${ROW}\n${ROW}\n`), ['0-0', '0-1', '0-2']);
    assert.deepEqual(await keys(`${ROW}\r\n${ROW}\n${ROW}`), ['0-0', '0-1', '1-0']);
    // Python's text mode reads a carriage return as an end, too.
    assert.deepEqual(await keys(`${ROW}\n${ROW}\r`), ['0-0', '0-1']);
    assert.deepEqual(await keys(ROW), ['0-0']);
  });

  test('lines beyond the limit are not read, and a limit of 0 is none', async () => {
    assert.equal((await rowsOf(`${ROW}\nnot json\n`, { limit: json('1') })).length, 1);
    assert.equal((await rowsOf(`${ROW}\n${ROW}\n`, { limit: json('0') })).length, 2);
  });

  test('repeats start one behind the other, or round by round where they are to be interleaved', async () => {
    const keys = async (interleave_repeats: boolean) =>
      (await rowsOf(`${ROW}\n${ROW} \n`, { num_repeats: jsonNumber(2), interleave_repeats })).map(
        ({ key }) => rolloutName(key),
      );
    assert.deepEqual(await keys(false), ['0-0', '0-1', '1-0', '1-1']);
    assert.deepEqual(await keys(true), ['0-0', '1-0', '0-1', '1-1']);
  });

  test('with a limit, rows without an agent are named by index; the lines are named in any case', async () => {
    const text = `${ROW}\n${ROW}\n`;
    await assert.rejects(
      rowsOf(text, { agent_name: null, limit: json('5') }),
      /^Error: No agent specified for rows \[0, 1\]\. .* Those are lines \[1, 2\] of /,
    );
    await assert.rejects(rowsOf(text, { agent_name: null }), /rows \[0, 0\].*lines \[1, 2\]/);
  });

  const bad: [name: string, line: string, config: JsonObject, message: RegExp][] = [
    [
      'that is no object',
      '[1]',
      {},
      /Malformed row in .* at line 2: expected a JSON object, got "\[1\]"/,
    ],
    [
      'with an agent that is no object',
      '{"agent_ref": "x"}',
      {},
      /line 2: agent_ref: expected \{"name": <text>\}, got 'x'/,
    ],
    [
      'with parameters that are null',
      '{"responses_create_params": null}',
      {},
      /line 2: 'responses_create_params': expected an object, got None/,
    ],
    [
      'with a task index of its own kind',
      `{"_ng_task_index": "a", "responses_create_params": {}}`,
      {},
      /_ng_task_index: expected an integer from 0, got 'a'/,
    ],
    [
      'whose extra_body is no JSON',
      '{"responses_create_params": {"metadata": {"extra_body": "{"}}}',
      { num_repeats_add_seed: true },
      /line 2: num_repeats_add_seed: .*metadata\.extra_body: expected JSON as text/,
    ],
    [
      'whose metadata is a text',
      '{"responses_create_params": {"metadata": "x"}}',
      { num_repeats_add_seed: true },
      /metadata: expected an object, got 'x'/,
    ],
  ];
  for (const [name, line, config, message] of bad) {
    test(`a row ${name} is an error that names line and field`, async () => {
      await assert.rejects(rowsOf(`${ROW}\n${line}\n`, config), message);
    });
  }

  test('columns of a table that are null in a row are absent there', async () => {
    const stamps = '"_ng_task_index": null, "_ng_rollout_index": null, "_ng_attempt_index": null';
    const line = `{"responses_create_params": {"metadata": null}, ${stamps}}`;
    const bare = '{"responses_create_params": {}}';
    const config = { agent_name: 'a', num_repeats_add_seed: true };
    const [given] = await rowsOf(`${line}\n`, config);
    const [expected] = await rowsOf(`${bare}\n`, config);
    assert.deepEqual(given, expected);
    assert.deepEqual(given?.key, { task: 0, rollout: 0 });
  });

  test('agents without a number of repeats are all named, with those that have one', async () => {
    const line = (name: string): string =>
      `{"responses_create_params": {}, "agent_ref": {"name": "${name}"}}\n`;
    await assert.rejects(
      rowsOf(line('z') + line('y') + line('x'), { num_repeats: json('{"x": 1, "b": 2}') }),
      {
        message:
          "num_repeats dict has no entry for agents ['y', 'z'] and no '_default' fallback. Listed agents: ['b', 'x']",
      },
    );
  });

  test('an override keeps how its number was written, and a seed the rest of extra_body', async () => {
    const line =
      '{"responses_create_params": {"metadata": {"extra_body": "{\\"top_k\\": 1.0, \\"s\\": \\"é\\", \\"n\\": 12345678901234567890}"}}}';
    const [row] = await rowsOf(line, {
      responses_create_params: json('{"temperature": 1.0}'),
      num_repeats_add_seed: true,
    });
    assert.equal(
      formatJson(row!.row['responses_create_params']!),
      String.raw`{"metadata":{"extra_body":"{\"top_k\": 1.0, \"s\": \"\\u00e9\", \"n\": 12345678901234567890, \"seed\": 0}"},"temperature":1.0}`,
    );
  });
});

describe('prompts', () => {
  async function withPrompt(yaml: string, row: string): Promise<GymRow[]> {
    await writeFile(path.join(directory.path, 'prompt.yaml'), yaml);
    return rowsOf(row, { prompt_config: 'prompt.yaml' });
  }

  test('a system template comes first, and both see the fields of the row', async () => {
    const [row] = await withPrompt(
      'system: "{role}"\nuser: |\n  {q[text]} {{x}}\n',
      '{"role": "R", "q": {"text": "T"}}',
    );
    assert.deepEqual(row!.row['responses_create_params'], {
      input: [
        { role: 'system', content: 'R' },
        { role: 'user', content: 'T {x}\n' },
      ],
    });
  });

  test('options and tools keep the order of names that are whole numbers, in prompt and row', async () => {
    const tools =
      '[{"name":"t","parameters":{"properties":{"2":{"type":"string"},"1":{"type":"integer"}}}}]';
    const [row] = await withPrompt(
      'user: "{options}"\n',
      `{"7": 0, "options": {"3": "c", "1": "a", "2": {"9": 1.0, "8": []}}, "5": 0, "responses_create_params": {"tools": ${tools}}}`,
    );
    const line = formatJson(row!.row);
    const said = `"input":[{"role":"user","content":"{'3': 'c', '1': 'a', '2': {'9': 1.0, '8': []}}"}]`;
    assert.ok(line.includes(`"responses_create_params":{"tools":${tools},${said}}`), line);
    assert.match(line, /^\{"7":0,"options":\{"3":"c","1":"a","2":\{"9":1\.0,"8":\[\]\}\},"5":0,/);
    const sample = JSON.parse(
      sampleOf(row!, { environment: 'e', max_attempts: 1, run_timeout: null }),
    ) as { extra_env_info: { row: string } };
    assert.match(sample.extra_env_info.row, /^\{"7":0,"options":\{"3":"c",/);
  });

  test('what a prompt file lacks, and what a template cannot do, is said', async () => {
    await assert.rejects(
      withPrompt('system: x\n', '{}'),
      /prompt\.yaml': user: expected a template text, got nothing/,
    );
    await assert.rejects(withPrompt('user: 5\n', '{}'), /user: expected a template text, got 5/);
    await assert.rejects(
      withPrompt('user: "{a.b}"\n', '{"a": 1}'),
      /'\{a\.b\}', which is not supported \(not a field\): supported are/,
    );
    await assert.rejects(
      rowsOf('{}', { prompt_config: 'none.yaml' }),
      /Prompt config not found: 'none\.yaml'/,
    );
  });
});

describe('skills', () => {
  const golden = JSON.parse(
    readFileSync(new URL('../../test/goldens/gym_config/skills.json', import.meta.url), 'utf8'),
  ) as { files: Record<string, string>; skills_ref: JsonObject };
  const places = (): { cwd: string; env: Record<string, string> } => ({
    cwd: directory.path,
    env: {},
  });

  async function write(files: Record<string, string>): Promise<void> {
    for (const [name, text] of Object.entries(files)) {
      const file = path.join(directory.path, name);
      await mkdir(path.dirname(file), { recursive: true });
      await writeFile(file, text);
    }
  }

  test("a directory has upstream's hash, names and versions, on every row", async () => {
    await write(
      Object.fromEntries(Object.entries(golden.files).map(([name, text]) => [`lib/${name}`, text])),
    );
    await symlink('nowhere', path.join(directory.path, 'lib', 'broken'));
    const ref = await skillsRef('lib', places());
    assert.deepEqual(comparable(ref), golden.skills_ref);
    const [row] = await rowsOf(ROW, { skills: { path: 'lib' } });
    assert.deepEqual(row!.row['skills_ref'], ref);
    const names = ref.skills.map(({ name }) => name).join(', ');
    assert.equal(
      said.at(-1),
      `Using skills from lib (hash=${ref.hash}, ${ref.skills.length} skill(s): ${names})`,
    );
  });

  test('what is wrong with a directory is said with its path', async () => {
    await write({
      'one/x/readme': '',
      'two/x/SKILL.md': 'no',
      'three/x/SKILL.md': '---\na: 1\n',
      'four/x/SKILL.md': '---\na: 1\n---',
      'five/file': '',
    });
    const refuses = (name: string, message: RegExp): Promise<void> =>
      assert.rejects(skillsRef(name, places()), message);
    await refuses('none', /Skills path does not exist: .*none \(from skills\.path='none'\)/);
    await refuses('five/file', /must be a directory of skill directories/);
    await refuses('five', /contains no skills/);
    await refuses('one', /missing a SKILL\.md file/);
    await refuses('two', /missing YAML frontmatter/);
    await refuses('three', /unterminated YAML frontmatter/);
    await refuses('four', /missing a required 'name' field/);
  });
});
