import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { loadGymConfig } from '../config/global-config.js';
import type { GymConfig } from '../config/global-config.js';
import { resolveInterpolations } from '../config/interpolation.js';
import { parseYaml } from '../config/yaml-text.js';
import type { Json, JsonObject } from '../json/exact.js';
import { formatJson, parseJson } from '../json/exact.js';
import type { TemporaryDirectory } from '../../lab/bed/temporary-directory.js';
import { makeTemporaryDirectory } from '../../lab/bed/temporary-directory.js';
import { comparable } from './golden-values.js';
import { processorTime_ms } from '../../test/harness/processor-time.js';

const golden = (name: string): Json =>
  parseJson(
    readFileSync(new URL(`../../test/goldens/gym_config/${name}`, import.meta.url), 'utf8'),
  );

describe("YAML, as OmegaConf's loader reads it", () => {
  type Case = [string, { value?: Json; error?: true }];
  for (const [text, expected] of golden('yaml.json') as unknown as Case[]) {
    test(`${JSON.stringify(text)} has the recorded value`, () => {
      const read = (): JsonObject => parseYaml(text, 'file.yaml') as JsonObject;
      if (expected.error === true) assert.throws(read);
      else assert.deepEqual(comparable(read()['a']!), comparable(expected.value!));
    });
  }

  test('a mistake is named with file, line and column', () => {
    assert.throws(
      () => parseYaml('a: 1\nb: [1\nc: 2', 'x.yaml'),
      /^Error: Malformed YAML in 'x.yaml' at line 3, column 1/,
    );
    assert.throws(() => parseYaml('a: 1\na: 2', 'x.yaml'), /line 2, column 1.*unique/);
  });
});

describe('interpolations that double at each level', () => {
  const doubled = (levels: number, twice: (name: string) => Json): JsonObject => ({
    l0: 'x',
    ...Object.fromEntries(
      Array.from({ length: levels }, (_, i) => [`l${i + 1}`, twice('${l' + String(i) + '}')]),
    ),
  });
  for (const [what, twice] of [
    ['texts', (name: string): Json => name + name],
    ['mappings', (name: string): Json => ({ a: name, b: name })],
    ['lists', (name: string): Json => [name, name]],
  ] as const)
    test(`${what} end within seconds and say so by place; those of ten levels are resolved`, () => {
      assert.deepEqual(resolveInterpolations(doubled(10, twice), {}).unresolved, []);
      const began_ms = processorTime_ms();
      const { unresolved } = resolveInterpolations(doubled(40, twice), {});
      assert.ok(processorTime_ms() - began_ms < 30_000);
      const last = unresolved.at(-1);
      assert.match(last?.where ?? '', /^l40/);
      assert.match(last?.what ?? '', /^expected at most \d+ references .*, got more: texts that/);
    });
});

describe('interpolations, as OmegaConf resolves them', () => {
  const { yaml, environment_variables, expected } = golden('interpolations.json') as unknown as {
    yaml: string;
    environment_variables: Record<string, string>;
    expected: Record<string, { value?: Json; error?: string }>;
  };
  const given = parseYaml(yaml, 'golden') as JsonObject;
  const { config, unresolved } = resolveInterpolations(given, environment_variables);
  for (const [key, { value, error }] of Object.entries(expected)) {
    test(`${key}: ${error ?? 'the value'} is as recorded`, () => {
      if (error === undefined) assert.deepEqual(comparable(config[key]!), comparable(value!));
      else assert(unresolved.some(({ where }) => where === key));
    });
  }

  test('errors say what is not set, what is not supported, and where a circle is', () => {
    const what = (key: string): string =>
      unresolved.find(({ where }) => where === key)?.what ?? 'resolved';
    assert.match(what('miss'), /'miss' references 'nope', which is not set.*\+\+nope=<value>/s);
    assert.match(what('selfd'), /refers to itself/);
    assert.match(what('d'), /^oc\.decode: expected a value as text, got 1/);
    assert.match(what('envn'), /Environment variable 'NOPE' not found/);
  });
});

describe('the global configuration', () => {
  let directory: TemporaryDirectory;
  before(async () => {
    directory = await makeTemporaryDirectory('gym-config');
  });
  after(() => directory.remove());

  async function load(
    files: Record<string, string>,
    { args = [], env = {} }: { args?: string[]; env?: Record<string, string> } = {},
  ): Promise<GymConfig> {
    const cwd = path.join(directory.path, String(Math.random()).slice(2));
    for (const [name, text] of Object.entries(files)) {
      await mkdir(path.dirname(path.join(cwd, name)), { recursive: true });
      await writeFile(path.join(cwd, name), text);
    }
    await mkdir(cwd, { recursive: true });
    return loadGymConfig({ args, cwd, env });
  }
  const whole = async (...given: Parameters<typeof load>): Promise<string> =>
    formatJson((await load(...given)).config);

  describe('has interpolations in overrides as Hydra and OmegaConf resolve them', () => {
    type Case = [string, { value?: Json; error?: string }];
    const { base, environment_variables, cases } = golden(
      'override-interpolations.json',
    ) as unknown as {
      base: string[];
      environment_variables: Record<string, string>;
      cases: Case[];
    };
    for (const [given, { value, error }] of cases) {
      test(`+k=${given}: ${error ?? 'the value'} is as recorded`, async () => {
        const args = [...base, `+k=${given}`];
        const read = load({}, { args, env: environment_variables }).catch((problem: unknown) => {
          assert.equal(error, 'ConfigCompositionException', String(problem));
          return null;
        });
        const loaded = await read;
        if (loaded === null) return;
        const failed = loaded.unresolved.find(({ where }) => where === 'k');
        assert.equal(failed !== undefined, error !== undefined, failed?.what);
        if (value !== undefined)
          assert.deepEqual(comparable(loaded.config['k']!), comparable(value));
      });
    }
  });

  test('arguments win over env.yaml, env.yaml over files, a file over what it includes', async () => {
    const files = {
      'in.yaml': 'a: inner\nb: inner\nc: inner\nd: inner\n',
      'out.yaml': 'config_paths: [in.yaml]\nb: outer\nc: outer\nd: outer\n',
      'env.yaml': 'c: env\nd: env\n',
    };
    assert.equal(
      await whole(files, { args: ['+config_paths=[out.yaml]', '+d=argument'] }),
      '{"a":"inner","b":"outer","c":"env","d":"argument","config_paths":["in.yaml","out.yaml"]}',
    );
  });

  test('of files listed together the later wins, with all that it includes', async () => {
    const files = {
      'first.yaml': 'x: first\n',
      'second.yaml': 'config_paths: [deep.yaml]\n',
      'deep.yaml': 'x: deep\n',
      'env.yaml': 'config_paths: [first.yaml, second.yaml]\n',
    };
    const { config } = await load(files);
    assert.equal(config['x'], 'deep');
  });

  test('a file is looked up in NEMO_GYM_EXTRA_ROOTS before the working directory', async () => {
    const root = path.join(directory.path, 'root');
    await mkdir(root);
    await writeFile(path.join(root, 'x.yaml'), 'from: root\n');
    const env = { NEMO_GYM_EXTRA_ROOTS: root };
    const { config } = await load(
      { 'x.yaml': 'from: cwd\n' },
      { args: ['+config_paths=[x.yaml]'], env },
    );
    assert.equal(config['from'], 'root');
  });

  test('a file that is nowhere is an error that lists where it was looked for', async () => {
    await assert.rejects(
      load({}, { args: ['+config_paths=[no.yaml]'] }),
      /config_paths entry 'no\.yaml' was not found\. Looked in:\n {2}- .*no\.yaml\n.*NEMO_GYM_EXTRA_ROOTS/s,
    );
    await assert.rejects(
      load({}, { args: ['+config_paths=x'] }),
      /must be a list of paths. Got: 'x'/,
    );
  });

  test("all values that are still '???' are one error, with how to give them", async () => {
    const files = { 'env.yaml': 'a: ???\nb: {c: ???, l: [1, ???]}\nd: 1\n' };
    await assert.rejects(load(files), (error: Error) => {
      assert.match(error.message, /^3 required config value\(s\) are unset/);
      assert.match(error.message, / {2}- a\n {2}- b\.c\n {2}- b\.l\[1\]\n/);
      assert.match(error.message, /\+\+b\.c=<value>/);
      return true;
    });
    await load(files, { args: ['+a=1', '+b.c=2', '+b.l=[]'] });
  });

  test('_inherit_from moves, _copy copies, _delete_key drops, and what is beside is laid over', async () => {
    const files = {
      'env.yaml': `
base: {agents: {simple: {port: 1, data: [1], server: {name: s}}}}
mine:
  _inherit_from: base
  agents: {simple: {server: {name: mine}}}
twin:
  _copy: other
  _delete_key: y
other: {x: 1, y: 2}
text: "\${inherit_from:moved.z}"
moved: {z: 3, w: 4}
`,
    };
    const { config } = await load(files);
    assert.equal(config['base'], undefined);
    assert.equal(
      formatJson(config['mine']!),
      '{"agents":{"simple":{"port":1,"data":[1],"server":{"name":"mine"}}}}',
    );
    assert.equal(formatJson(config['twin']!), '{"x":1}');
    assert.equal(formatJson(config['other']!), '{"x":1,"y":2}');
    assert.equal(formatJson([config['text']!, config['moved']!]), '[3,{"w":4}]');
    await assert.rejects(
      load({ 'env.yaml': 'a: {_inherit_from: no.where}\n' }),
      /Path specified does not exist in config: \['no', 'where'\]/,
    );
  });

  test('an interpolation that fails is known by its place and stays as text', async () => {
    const { config, unresolved } = await load({
      'env.yaml': 'server: {url: "${nope}/v1"}\nok: 1\n',
    });
    assert.equal(formatJson(config), '{"server":{"url":"${nope}/v1"},"ok":1}');
    assert.deepEqual(
      unresolved.map(({ where }) => where),
      ['server.url'],
    );
  });
});
