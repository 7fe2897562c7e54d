/** Agents of NeMo Gym whose model server is the gateway: calls, their tokens and what a lost worker costs. */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { describe, test } from 'node:test';
import { inspect } from 'node:util';
import { createEnvironment, EnvironmentSettings } from '../../src/environments/registry.js';
import { toRow } from '../../src/model/results/row.js';
import { Sample } from '../../src/model/sample.js';
import { answer, startServer } from '../environments/loopback-server.js';
import type { ProgramBench, ProgramParts } from '../fakes/program-bench.js';
import { programBench } from '../fakes/program-bench.js';
import { bareContext } from '../fakes/environment-context.js';
import { REF } from '../fakes/temporary-store.js';

const TEXT = '{"responses_create_params":{"input":"go"},"big":9007199254740993}';

interface GymRow {
  _ng_rollout_id?: string;
  _ng_attempt_index?: number;
}
type Ask = (messages: object[]) => Promise<string>;
/** What an agent does with a row; it answers with the row and what this returns. */
type Plays = (row: GymRow, ask: Ask) => Promise<object>;

/** What an agent throws whose server dies. */
const DIES = new Error('its server dies');

interface Bed extends ProgramBench {
  /** The rows that arrived. */
  rows: GymRow[];
}

/** One rollout of an agent whose model server is a gateway, at `gateway`. */
async function playing(
  t: TestContext,
  { plays, settings = {}, ...parts }: { plays: Plays; settings?: object } & Partial<ProgramParts>,
): Promise<Bed> {
  const rows: GymRow[] = [];
  let gateway = '';
  const { url } = await startServer(({ body }, response) => {
    if (body === null) {
      answer(404, {})({ method: 'GET', url: '/', headers: {}, body }, response);
      return;
    }
    const row = body as GymRow;
    rows.push(row);
    const ask: Ask = async (messages) => {
      const path = `/ng-rollout/${row._ng_rollout_id ?? 'none'}/v1/chat/completions`;
      const said = await fetch(new URL(path, gateway), {
        method: 'POST',
        body: JSON.stringify({ messages }),
      });
      const text = await said.text();
      if (said.status !== 200) throw new Error(`the model answered ${said.status}: ${text}`);
      const { choices } = JSON.parse(text) as { choices: [{ message: { content: string } }] };
      return choices[0].message.content;
    };
    plays(row, ask).then(
      (said) => {
        response.writeHead(200).end(JSON.stringify({ ...row, ...said }));
      },
      (error: unknown) => {
        if (error === DIES) response.destroy();
        else response.writeHead(500).end(String(error));
      },
    );
  });
  const given = EnvironmentSettings.parse({ kind: 'gym_agent', agents: { one: url }, ...settings });
  const task = await createEnvironment(given, bareContext());
  t.after(() => task.close?.());
  const bench = await programBench(t, {
    program: () => Promise.reject(new Error('no service was expected to be asked')),
    environments: { task },
    sample: {
      message_log: [],
      extra_env_info: { agent: 'one', task_index: 3, rollout_index: 1, row: TEXT },
    },
    ...parts,
  });
  gateway = bench.base_url();
  return { ...bench, rows };
}

const two: Plays = async (_, ask) => {
  const begun = [{ role: 'user', content: 'Say: yes' }];
  const said = await ask(begun);
  const then = [...begun, { role: 'assistant', content: said }, { role: 'user', content: 'again' }];
  return { reward: said.length + (await ask(then)).length };
};

async function rowOf({ store }: Pick<Bed, 'store'>) {
  const trajectory = await store.readTrajectory(REF);
  const outcome = { stop_reason: 'terminated', failure: null } as const;
  const sample = Sample.parse({ message_log: [], task_name: 'task' });
  return toRow({ sample, ref: REF, semantics: 'standard', trajectory, outcome });
}

describe('an agent of NeMo Gym whose model server is the gateway', () => {
  test('has a row with the ids, logprobs and versions of its calls, and its answer', async (t) => {
    const bench = await playing(t, { plays: two });
    await bench.opened();
    const row = await rowOf(bench);
    const sampled = row.message_log.filter((message) => message.role === 'assistant');
    assert.equal(sampled.length, 2);
    for (const { token_ids, generation_logprobs } of sampled)
      assert.equal(token_ids.length, generation_logprobs?.length);
    assert.deepEqual(
      [row.logprobs_mode, row.calls, row.lives, row.untokenized],
      ['processed', 2, 1, undefined],
    );
    assert.equal(row.total_reward, 6);
  });

  test('is sent its row with its key, which its answer does not have any more', async (t) => {
    const bench = await playing(t, { plays: two });
    await bench.opened();
    const [sent] = bench.rows;
    assert.match(sent?._ng_rollout_id ?? '', /^[A-Za-z0-9][A-Za-z0-9._-]*$/);
    const [{ text } = { text: '' }] = await bench.lines('result');
    assert.equal(text.includes(sent?._ng_rollout_id ?? 'none'), false);
    assert.deepEqual(JSON.parse(text), JSON.parse(TEXT.replace(/}$/, ',"reward":6}')));
  });

  test('that fails behind a whole call asks for it again in the next life, and nothing is sampled again', async (t) => {
    let lives = 0;
    const fails: Plays = async (row, ask) => {
      lives += 1;
      const said = await two(row, ask);
      if (lives === 1) throw new Error('boom');
      return said;
    };
    const bench = await playing(t, { plays: fails });
    await bench.opened();
    const { ended } = await bench.playsOn();
    assert.equal(ended, 'terminated');
    assert.deepEqual(
      bench.rows.map(({ _ng_attempt_index }) => _ng_attempt_index),
      [undefined, 1],
    );
    assert.notEqual(bench.rows[0]?._ng_rollout_id, bench.rows[1]?._ng_rollout_id);
    assert.equal((await bench.lines('generation')).length, 2);
  });

  test('that asks for what is never answered is not asked again', async (t) => {
    const asks: Plays = async (row) => {
      const path = `/ng-rollout/${row._ng_rollout_id ?? ''}/v1/embeddings`;
      const { status } = await fetch(new URL(path, bench.base_url()), { method: 'POST' });
      throw new Error(`got ${status}`);
    };
    const bench: Bed = await playing(t, { plays: asks });
    await assert.rejects(bench.opened(), /answered 500: Error: got 404/);
    assert.equal((await bench.lines('life')).length, 1);
  });

  test('whose server dies in the middle is asked again, and no call is sampled twice', async (t) => {
    const dies: Plays = async (row, ask) => {
      const said = await two(row, ask);
      if (bench.rows.length < 3) throw DIES;
      return said;
    };
    const bench: Bed = await playing(t, { plays: dies });
    await bench.opened();
    assert.equal((await bench.playsOn()).ended, 'terminated');
    assert.equal((await bench.lines('generation')).length, 2);
    assert.deepEqual(
      bench.rows.map(({ _ng_attempt_index }) => _ng_attempt_index),
      [undefined, 1, 2],
    );
  });

  test('whose penalties look at what was sampled has the reward that they leave', async (t) => {
    const settings = { reward_penalties: { penalize_empty_final_answer: true } };
    const bench = await playing(t, { plays: two, settings });
    await bench.opened();
    const row = await rowOf(bench);
    assert.deepEqual(
      [row.total_reward, row.reward_shaping],
      [0, { reward: 6, penalties: { empty_final_answer: true } }],
    );
  });

  test('is not asked again where no engine says what was sampled: its reward is shaped later', async (t) => {
    const away: Plays = async (row, ask) => {
      const said = await two(row, ask);
      await bench.faults({ fault: '503', path: '/detokenize', times: null });
      return said;
    };
    const settings = { reward_penalties: { penalize_empty_final_answer: true } };
    const bench: Bed = await playing(t, { plays: away, settings });
    await bench.opened();
    assert.equal((await bench.lines('exit')).length, 0);
    await bench.faults(null);
    assert.equal((await bench.playsOn()).ended, 'terminated');
    assert.equal(bench.rows.length, 1);
    const row = await rowOf(bench);
    assert.deepEqual([row.total_reward, row.reward_shaping?.reward], [0, 6]);
  });

  test('whose conversation is longer than the model takes is told nothing, verified, and truncated', async (t) => {
    const long: Plays = async (_, ask) => {
      const said = await ask([{ role: 'user', content: 'word '.repeat(3000) }]);
      return { reward: 2, said };
    };
    const bench = await playing(t, { plays: long, request: { max_seq_len: 64 } });
    await bench.opened();
    const row = await rowOf(bench);
    assert.deepEqual([row.total_reward, row.truncated, row.calls], [2, true, 0]);
    const [end] = await bench.lines('end');
    assert.equal(end?.stop_reason, 'truncated');
    assert.equal((await bench.lines('refused')).length, 1);
  });

  test('that asks more often than it may is told nothing more, and ends by that limit', async (t) => {
    const bench = await playing(t, { plays: two, request: { max_rollout_turns: 1 } });
    await bench.opened();
    const [end] = await bench.lines('end');
    assert.deepEqual([end?.stop_reason, end?.totals.total_reward], ['max_turns', 3]);
  });

  test('that fails behind a limit has failed: no fault is worth 0', async (t) => {
    const long: Plays = async (_, ask) => {
      await ask([{ role: 'user', content: 'word '.repeat(3000) }]);
      throw new Error('the judge is away');
    };
    const bench = await playing(t, { plays: long, request: { max_seq_len: 64 } });
    await bench.opened();
    assert.deepEqual(
      [(await bench.lines('observation')).length, (await bench.lines('end')).length],
      [0, 0],
    );
    const [exit] = await bench.lines('exit');
    const [fault] = await bench.lines('fault');
    assert.deepEqual([exit?.code, exit?.failed, fault?.status], [1, true, 500]);
    await assert.rejects(bench.playsOn(), /the judge is away/);
    assert.equal((await bench.lines('life')).length, 3);
  });

  test('is verified behind a limit for as long as it takes', async (t) => {
    const slowly: Plays = async (row, ask) => {
      const said = await two(row, ask);
      await new Promise((resolve) => setTimeout(resolve, 400));
      return said;
    };
    const request = { max_rollout_turns: 1 };
    const bench = await playing(t, { plays: slowly, request, times: { overstay_ms: 50 } });
    await bench.opened();
    const [end] = await bench.lines('end');
    assert.deepEqual([end?.stop_reason, end?.totals.total_reward], ['max_turns', 3]);
  });

  test('whose error names the address of its calls keeps the key out of journals and faults', async (t) => {
    const fails: Plays = (row) =>
      Promise.reject(
        new Error(`no answer of /ng-rollout/${row._ng_rollout_id ?? ''}/v1/responses`),
      );
    const bench = await playing(t, { plays: fails, request: { attempts: { agent: 1 } } });
    await bench.opened();
    const { error } = await bench.plays();
    const [row] = bench.rows;
    const key = row?._ng_rollout_id ?? 'none';
    const texts = [JSON.stringify(await bench.journalLines()), inspect(error, { depth: 9 })];
    for (const text of texts) assert.equal(text.includes(key), false);
    assert.match(texts[0] ?? '', /ng-rollout\/\(key\)\/v1/);
  });

  test('whose call meets a fault of ours has no verdict, and another life', async (t) => {
    const asks: Plays = async (row, ask) => {
      if (bench.rows.length > 1) await bench.faults(null);
      return await two(row, ask);
    };
    const bench = await playing(t, { plays: asks });
    await bench.faults({ fault: 'wrong_echo', times: null });
    await bench.opened();
    assert.equal((await bench.playsOn()).ended, 'terminated');
    assert.deepEqual(
      bench.rows.map(({ _ng_attempt_index }) => _ng_attempt_index),
      [undefined, undefined],
    );
    assert.deepEqual(
      (await bench.lines('exit')).map(({ code }) => code),
      [0],
    );
  });
});
