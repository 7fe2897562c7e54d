import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { parseAggregate, parseCollect, parseE2E, parseProfile } from '../config/collect-config.js';
import type { ParsedCommand } from '../config/collect-config.js';
import type { RolloutCollectionConfig } from '../config/schemas.js';
import { formatJson } from '../json/exact.js';
import type { TemporaryDirectory } from '../../lab/bed/temporary-directory.js';
import { makeTemporaryDirectory } from '../../lab/bed/temporary-directory.js';

let directory: TemporaryDirectory;
const SERVERS = `
simple:
  responses_api_agents:
    simple_agent:
      entrypoint: app.py
      url: \${judge_url}
policy_model:
  responses_api_models: {vllm: {entrypoint: app.py, base_url: "\${policy_base_url}"}}
some_variable: 5
`;

before(async () => {
  directory = await makeTemporaryDirectory('gym-collect-config');
  const write = async (name: string, text: string): Promise<void> => {
    const file = path.join(directory.path, name);
    await mkdir(path.dirname(file), { recursive: true });
    await writeFile(file, text);
  };
  await write('servers.yaml', SERVERS);
  await write('run.yaml', 'agent_name: x\ninput_jsonl_fpath: i\noutput_jsonl_fpath: o\n');
  await write('late.yaml', 'num_repeats: 9\n');
  await write('typo.yaml', 'num_repeat: 2\n');
  await write('extra/benchmarks/aime/config.yaml', 'limit: 7\n');
  await write('temporal.yaml', 'generation: {}\nenvironments: {}\n');
});
after(() => directory.remove());

const IN_OUT = ['+input_jsonl_fpath=in.jsonl', '+output_jsonl_fpath=out.jsonl'];

const collect = (...args: string[]): Promise<ParsedCommand<RolloutCollectionConfig>> =>
  parseCollect({ args, cwd: directory.path, env: {} });
const refuses = (args: string[], message: RegExp | { message: string }): Promise<void> =>
  assert.rejects(collect(...args), message);

describe("the arguments of upstream's collection commands", () => {
  test('the documented command of ng_collect_rollouts is understood, with every default', async () => {
    const { config, head_server, notes } = await collect(
      '+agent_name=example_single_tool_call_simple_agent',
      '+input_jsonl_fpath=weather_query.jsonl',
      '+output_jsonl_fpath=weather_rollouts.jsonl',
      '+limit=100',
      '+num_repeats=4',
      '+num_samples_in_parallel=10',
    );
    assert.deepEqual(config, {
      output_jsonl_fpath: 'weather_rollouts.jsonl',
      num_samples_in_parallel: 10,
      responses_create_params: {},
      disable_aggregation: false,
      route_failures_to_sidecar: false,
      require_complete: false,
      max_resident_rollout_tasks: null,
      rollout_collection_driver: null,
      environment_routing_mode: null,
      environment_server_name: null,
      environment_server_routes: null,
      count_failure_classes_as_zero: null,
      count_missing_rollouts_as_zero: null,
      upload_rollouts: true,
      agent_name: 'example_single_tool_call_simple_agent',
      agent_map: null,
      fan_out: null,
      input_jsonl_fpath: 'weather_query.jsonl',
      limit: 100,
      num_repeats: 4,
      num_repeats_add_seed: false,
      interleave_repeats: false,
      resume_from_cache: false,
      prompt_config: null,
      skills: null,
    });
    assert.equal(head_server, 'http://127.0.0.1:11000');
    assert.deepEqual(notes, []);
  });

  test('the flags of gym eval run --no-serve say the same', async () => {
    const { config } = await collect(
      ...['--no-serve', '--agent', "it's \\", '-i', 'in=1.jsonl', '--output=o ut.jsonl'],
      ...['--limit', '5', '--num-repeats', '{a: 2, _default: 1}', '--resume', '-v'],
      ...['--concurrency', '8', '--temperature', '1.0', '--top-p', '0.9', '--max-output-tokens=16'],
      ...['--prompt-config', 'p.yaml', '--disable-aggregation'],
    );
    assert.equal(config.agent_name, "it's \\");
    assert.equal(config.input_jsonl_fpath, 'in=1.jsonl');
    assert.equal(config.output_jsonl_fpath, 'o ut.jsonl');
    assert.deepEqual(config.num_repeats, { a: 2, _default: 1 });
    assert.equal(config.limit, 5);
    assert(config.resume_from_cache && config.disable_aggregation);
    assert.equal(
      formatJson(config.responses_create_params),
      '{"temperature":1.0,"top_p":0.9,"max_output_tokens":16}',
    );
  });

  test('the flags that release 0.7 has added are accepted, without effect on rows', async () => {
    const { notes } = await collect(
      ...IN_OUT,
      ...['--interleave-repeats', '--no-health-check', '--health-check-workers', '2'],
      ...['--health-check-ignore', 'a,b', '--allow-unsupported-pairing'],
    );
    assert.deepEqual(notes, [
      'without effect here: disable_health_check, health_check_workers, health_check_ignored_checks, allow_unsupported_pairing',
    ]);
  });

  test('parameters may be nested or dotted, and a file may say it all', async () => {
    const { config } = await collect(
      '+config_paths=[run.yaml]',
      '+responses_create_params.temperature=0.5',
      '++responses_create_params={top_p: 1.0}',
      '+skills.path=lib',
      'limit="3"',
    );
    assert.equal(formatJson(config.responses_create_params), '{"temperature":0.5,"top_p":1.0}');
    assert.deepEqual([config.agent_name, config.limit, config.skills], ['x', 3, { path: 'lib' }]);
  });

  test("a component's configuration is found by name under the search directories", async () => {
    const { config, places } = await collect(
      ...['--benchmark', 'aime', '--search-dir', 'extra', ...IN_OUT],
    );
    assert.equal(config.limit, 7);
    assert.equal(places.env['NEMO_GYM_EXTRA_ROOTS'], 'extra');
    await refuses(['--benchmark', 'nope'], /benchmarks\/nope\/config\.yaml, which does not exist/);
  });

  test('the head server may be elsewhere', async () => {
    const { head_server } = await collect(...IN_OUT, '+head_server={host: h, port: 5}');
    assert.equal(head_server, 'http://h:5');
    await refuses([...IN_OUT, '+head_server.port=x'], /head_server\.port: expected an integer/);
  });

  test('options of ours are handed on', async () => {
    const args = ['--serve-command', 'gym env start', ...IN_OUT];
    const places = { cwd: directory.path, env: {} };
    const { own } = await parseCollect({ args, ...places, own: ['serve-command'] });
    assert.deepEqual(own, { 'serve-command': 'gym env start' });
  });

  test("--config names Gym's files, as upstream has it, or this project's temporal.yaml: their content says which", async () => {
    const { own, config } = await collect(
      ...[
        '--config',
        'temporal.yaml',
        '--config',
        'run.yaml',
        '--config=servers.yaml',
        '--limit',
        '2',
      ],
      '+config_paths=[late.yaml]',
    );
    assert.deepEqual(own, { config: 'temporal.yaml' });
    assert.deepEqual([config.agent_name, config.limit, config.num_repeats], ['x', 2, 9]);
    const { own: missing } = await collect('--config', 'missing.yaml', ...IN_OUT);
    assert.deepEqual(missing, { config: 'missing.yaml' });
    await refuses(
      ['--config', 'a.yaml', '--config', 'b.yaml'],
      /expected one temporal\.yaml, got a\.yaml and b\.yaml/,
    );
  });

  test('the other commands have their own fields and flags', async () => {
    const places = { cwd: directory.path, env: {} };
    const aggregate = await parseAggregate({
      args: ['-i', 'a*,b', '-o', 'out', '+merge_shards=no'],
      ...places,
    });
    assert.deepEqual(aggregate.config, {
      input_glob: 'a*,b',
      output_jsonl_fpath: 'out',
      merge_shards: false,
      count_failure_classes_as_zero: null,
      count_missing_rollouts_as_zero: null,
    });
    const profile = await parseProfile({ args: ['--inputs', 'i', '--rollouts', 'r'], ...places });
    assert.deepEqual(profile.config, {
      materialized_inputs_jsonl_fpath: 'i',
      rollouts_jsonl_fpath: 'r',
      allow_partial_rollouts: false,
    });
    const e2e = await parseE2E({ args: ['--split', 'train', '-o', 'out'], ...places });
    assert.equal(e2e.config.split, 'train');
    await assert.rejects(
      parseE2E({ args: ['+split=test', '-o', 'o'], ...places }),
      /split \(expected train, validation or benchmark, got 'test'\)/,
    );
  });
});

describe('what is wrong', () => {
  test('missing and invalid fields are all named, with how to give them', async () => {
    await refuses(['+num_repeats=0', '+limit=x'], {
      message:
        'missing required configuration: output_jsonl_fpath, input_jsonl_fpath. ' +
        'Provide each via its flag (see --help) or as a +output_jsonl_fpath=<value> override. ' +
        "invalid configuration: limit (expected an integer, got 'x'); num_repeats (num_repeats must be >= 1, got 0).",
    });
    await refuses(
      [...IN_OUT, '+num_repeats={a: 0, b: 1, c: -2}'],
      /num_repeats dict values must be >= 1, got \{'a': 0, 'c': -2\}/,
    );
    await refuses([...IN_OUT, '+agent_name=5'], /agent_name \(expected text, got 5\)/);
    await refuses([...IN_OUT, '+skills={path: a, x: 1}'], /skills\.x \(unknown field/);
    await refuses([...IN_OUT, '+resume_from_cache=maybe'], /expected true or false, got 'maybe'/);
  });

  test('a number is shown as it was given, whichever field refuses it', async () => {
    await refuses([...IN_OUT, '+limit=-1'], /limit \(expected 0 or more, got -1\)/);
    await refuses(
      [...IN_OUT, '+num_samples_in_parallel=-2.0'],
      /num_samples_in_parallel \(expected 0 or more, got -2\.0\)/,
    );
    await refuses([...IN_OUT, '+skills=5'], /skills \(expected object, got 5\)/);
    await refuses(
      [...IN_OUT, '+skills=[1, {a: 9007199254740993}]'],
      /skills \(expected object, got \[1,\{"a":9007199254740993\}\]\)/,
    );
  });

  test('an unknown field is named, with the nearest one', async () => {
    await refuses(
      [...IN_OUT, '+num_repeat=4'],
      /num_repeat: unknown field\. Did you mean num_repeats\?/,
    );
    const { notes } = await collect(...IN_OUT, '+zzzzzz=4');
    assert.deepEqual(notes, [
      'WARNING: not known here, and ignored: zzzzzz (a newer NeMo Gym may have it)',
    ]);
    await refuses(
      [...IN_OUT, '--num-repeat', '4'],
      /unrecognized argument --num-repeat\. Did you mean --num-repeats\?/,
    );
    await refuses(
      ['+config_paths=[typo.yaml]', ...IN_OUT],
      /num_repeat: unknown field\. Did you mean/,
    );
  });

  test('a driver is Python and refused', async () => {
    await refuses(
      [...IN_OUT, '+rollout_collection_driver=a.b:c'],
      /a driver is Python code.*'a\.b:c'/,
    );
  });
});

describe('of NeMo Gym 0.7.0', () => {
  const REFUSED = {
    agent_map: '{old: new}',
    fan_out: '{old: [new]}',
    environment_routing_mode: 'taskset',
    environment_server_name: 'e',
    environment_server_routes: '{t: e}',
    count_failure_classes_as_zero: '[agent_run_error]',
    count_missing_rollouts_as_zero: 'true',
  };

  for (const [field, value] of Object.entries(REFUSED)) {
    test(`${field} would change what is played or counted: it is refused by its name`, async () => {
      const problem = new RegExp(`invalid configuration: ${field} \\(.*, got .`);
      await refuses([...IN_OUT, `+${field}=${value}`], problem);
    });
  }

  test('what asks for nothing of these is accepted', async () => {
    const { notes } = await collect(
      ...[...IN_OUT, '+agent_map=null', '+fan_out={}', '+environment_routing_mode=agent'],
      ...['+environment_server_routes={}', '+count_failure_classes_as_zero=[]'],
      '+count_missing_rollouts_as_zero=false',
    );
    assert.deepEqual(notes, []);
  });

  test('aggregate refuses what it would count, and passes over where rows go', async () => {
    const args = ['-i', 'a', '-o', 'out', '+environment_routing_mode=taskset'];
    const places = { cwd: directory.path, env: {} };
    const { notes } = await parseAggregate({ args, ...places });
    assert.deepEqual(notes, ['without effect here: environment_routing_mode']);
    await assert.rejects(
      parseAggregate({ args: [...args, '+count_missing_rollouts_as_zero=true'], ...places }),
      /count_missing_rollouts_as_zero \(metrics here count rows that have a result, got True\)/,
    );
  });

  test('limits, order and completeness are taken, by field and by flag', async () => {
    const { config, notes } = await collect(
      ...[...IN_OUT, '--interleave-repeats', '+require_complete=true'],
      '+max_resident_rollout_tasks=8',
    );
    assert.ok(config.interleave_repeats && config.require_complete);
    assert.equal(config.max_resident_rollout_tasks, 8);
    assert.deepEqual(notes, []);
    await refuses([...IN_OUT, '+max_resident_rollout_tasks=0'], /expected 1 or more, got 0/);
  });

  test('what only concerns its collector is said to be without effect', async () => {
    const { notes } = await collect(
      ...[...IN_OUT, '--no-health-check', '--health-check-ignore', 'a,b', '+dispatch_budget_s=60'],
      ...['+retain_results_in_memory=false', '+telemetry={enabled: true}'],
      '--allow-unsupported-pairing',
    );
    const idle = ['disable_health_check', 'health_check_ignored_checks'].concat([
      'allow_unsupported_pairing',
      'dispatch_budget_s',
      'retain_results_in_memory',
      'telemetry',
    ]);
    assert.deepEqual(notes, [`without effect here: ${idle.join(', ')}`]);
  });

  test('an environment server is a server', async () => {
    const relay = '+relay={environment_servers: {legacy_agent: {entrypoint: app.py}}}';
    assert.deepEqual((await collect(...IN_OUT, relay)).notes, []);
  });
});

describe('what upstream accepts and is without effect here', () => {
  test('servers, variables and global keys are accepted, and the idle ones said once', async () => {
    const { notes, gym } = await collect(
      ...['+config_paths=[servers.yaml]', ...IN_OUT, '+judge_url=http://j', '+policy_api_key=k'],
      ...['+hf_token=t', '+split=train'],
    );
    assert.deepEqual(notes, ['without effect here: policy_api_key, hf_token, split']);
    assert.match(formatJson(gym['simple']!), /"url":"http:\/\/j"/);
  });

  test('fields of its sibling commands, and of older releases', async () => {
    const { notes } = await collect(
      ...IN_OUT,
      ...['+benchmark=omniscience', '+help=false', '+rollouts_jsonl_fpath=r', '+input_glob=x'],
    );
    const idle = ['benchmark', 'help', 'rollouts_jsonl_fpath', 'input_glob'];
    assert.deepEqual(notes, [`without effect here: ${idle.join(', ')}`]);
    const args = ['--inputs', 'i', '--rollouts', 'r', '+pass_threshold=1.0'];
    const profile = await parseProfile({ args, cwd: directory.path, env: {} });
    assert.deepEqual(profile.notes, ['without effect here: pass_threshold']);
  });

  test("an interpolation that fails matters only in the command's own fields", async () => {
    await collect('+config_paths=[servers.yaml]', ...IN_OUT);
    await refuses(
      [...IN_OUT, '+agent_name=${nope}'],
      /'agent_name' references 'nope', which is not set/,
    );
  });

  test('the old name of upload_rollouts is accepted, the new one wins, nothing is uploaded', async () => {
    const old = await collect(...IN_OUT, '+upload_rollouts_to_wandb=false');
    assert.equal(old.config.upload_rollouts, false);
    assert.match(old.notes.join(), /upload_rollouts_to_wandb is deprecated; use upload_rollouts/);
    const both = await collect(
      ...IN_OUT,
      '+upload_rollouts_to_wandb=false',
      '+upload_rollouts=true',
    );
    assert.equal(both.config.upload_rollouts, true);
    assert.match(both.notes.join(), /nothing is uploaded/);
  });
});
