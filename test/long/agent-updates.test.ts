/** Programs whose policy is updated while they ask: each token has the label of the weights that sampled it. */
import assert from 'node:assert/strict';
import path from 'node:path';
import { after, before, beforeEach, describe, test } from 'node:test';
import type { Trajectory } from '../../src/model/journal/trajectory.js';
import { applyLine, emptyTrajectory } from '../../src/model/journal/trajectory.js';
import { readJournal } from '../../lab/bed/batch.js';
import type { PolicyBed } from '../../lab/bed/policy-bed.js';
import { startPolicyBed } from '../../lab/bed/policy-bed.js';
import { eventually, within } from '../../lab/bed/waiting.js';
import type { AgentService, Running, ServedProgram } from '../servers/agent-service.js';
import { startAgentService } from '../servers/agent-service.js';
import type { Heard } from '../servers/streaming-client.js';
import { askStreamed } from '../servers/streaming-client.js';

const TOKENS = 300;
/** An answer takes longer than an update, and is at its end soon afterwards. */
const SLOW = 10;
const FAST = 3000;
const LATE_MS = 120_000;

/** Something that a program waits for. */
function gate(): { opened: Promise<void>; open: () => void } {
  let open: () => void = () => assert.fail('no gate');
  const opened = new Promise<void>((resolve) => (open = resolve));
  return { opened, open };
}

const task = (content: string) => ({ role: 'user', content });

describe('a program whose policy is updated', () => {
  let bed: PolicyBed;
  let service: AgentService;
  let play: ServedProgram = () => assert.fail('no program');
  let version = 0;
  let heard: Heard[] = [];

  before(async () => {
    service = await startAgentService((running) => play(running));
    bed = await startPolicyBed({
      name: 'agent-updates',
      replicas: 2,
      environments: { own: { kind: 'agent', run: { url: service.url } } },
    });
  });
  after(async () => {
    await bed.end();
    await service.close();
  });
  beforeEach(async () => {
    heard = [];
    await update();
    await pace(SLOW);
  });

  const update = async (): Promise<void> => {
    version += 1;
    await bed.publish(await bed.weights(version));
  };
  const pace = async (tokens_per_second: number): Promise<void> => {
    await Promise.all(bed.engines.map((engine) => engine.process().change({ tokens_per_second })));
  };
  const ask = (
    { task: given, run, signal }: Running,
    { messages, cut = signal }: { messages: object[]; cut?: AbortSignal },
  ) =>
    askStreamed(given, {
      run,
      signal: AbortSignal.any([signal, cut]),
      messages,
      patience_ms: LATE_MS,
      heard,
    });
  const said = (what: string, tries: number) =>
    eventually(what, () => heard.length === tries && (heard.at(-1)?.text.length ?? 0) > 20);

  const start = async (batch_id: string): Promise<void> => {
    await bed.batch(batch_id).start({
      samples: [{ message_log: [task('Tell a story.')], task_name: 'own', extra_env_info: {} }],
      num_repeats: 1,
      max_seq_len: 8192,
      max_rollout_turns: 10,
      generation: { max_new_tokens: TOKENS, min_tokens: TOKENS },
    });
  };
  /** Its journal, where no label is wrong by the engines' own logs. */
  const ended = async (batch_id: string): Promise<Trajectory> => {
    const { rollouts, failures } = await bed.batch(batch_id).outcome();
    assert.deepEqual([failures, rollouts.map(({ total_reward }) => total_reward)], [[], [1]]);
    const { wrong, unlabelled, tokens, turns_generated_twice } = await bed.check(batch_id);
    assert.deepEqual([wrong, unlabelled, turns_generated_twice], [[], 0, 0]);
    const trajectory = emptyTrajectory();
    const place = { batch_id, row: 0, repeat: 0 };
    for (const line of await readJournal(path.resolve(bed.journals(batch_id), '../..'), place))
      applyLine(trajectory, line);
    assert.equal(tokens, trajectory.calls.length * TOKENS);
    return trajectory;
  };
  /** For each call, the labels of its tokens, in their order. */
  const labels = ({ calls }: Trajectory): string[][] =>
    calls.map(({ sampled }) => [
      ...new Set(sampled.segments.map((one) => String(one.policy_version))),
    ]);

  test('in the middle of an answer hears it on one connection, under both weights', async () => {
    play = async (running) => {
      await ask(running, { messages: running.task.message_log });
      return { reward: 1 };
    };
    await start('middle');
    await said('a beginning', 1);
    await update();
    await pace(FAST);
    const trajectory = await ended('middle');
    assert.deepEqual(labels(trajectory), [[String(version - 1), String(version)]]);
    assert.deepEqual(
      heard.map(({ text, whole }) => [text, whole]),
      [[trajectory.calls[0]?.answer?.content, true]],
    );
  });

  test('between a try and the next one gets the first tokens with their label, and the rest under the new weights', async () => {
    const [broken, updated] = [gate(), gate()];
    play = async (running) => {
      const cut = new AbortController();
      const messages = running.task.message_log;
      const first = ask(running, { messages, cut: cut.signal });
      await said('a beginning', 1);
      cut.abort(new Error('no patience'));
      await assert.rejects(first, /no patience/);
      broken.open();
      await updated.opened;
      await ask(running, { messages });
      return { reward: 1 };
    };
    await start('retry');
    await within('the cut', broken.opened);
    await update();
    updated.open();
    await pace(FAST);
    const trajectory = await ended('retry');
    assert.deepEqual(labels(trajectory), [[String(version - 1), String(version)]]);
    const [first, second] = heard;
    assert.deepEqual([heard.length, first?.whole, second?.whole], [2, false, true]);
    assert.ok(second!.text.startsWith(first!.text), `${first!.text} / ${second!.text}`);
    assert.equal(second!.text, trajectory.calls[0]?.answer?.content);
  });

  test('between two lives is replayed what it had with its labels, and asks on under the new weights', async () => {
    const updated = gate();
    play = async (running) => {
      const { message_log } = running.task;
      const isFirst = running.run.endsWith('.1');
      if (!isFirst) await updated.opened;
      if (isFirst) await pace(FAST);
      const one = await ask(running, { messages: message_log });
      if (isFirst) await pace(SLOW);
      const more = [...message_log, { role: 'assistant', content: one }, task('More.')];
      if (isFirst) {
        const cut = new AbortController();
        const second = ask(running, { messages: more, cut: cut.signal });
        await said('a beginning of the second answer', 2);
        cut.abort(new Error('it breaks'));
        await second;
      }
      const two = await ask(running, { messages: more });
      await ask(running, {
        messages: [...more, { role: 'assistant', content: two }, task('End.')],
      });
      return { reward: 1 };
    };
    await start('lives');
    await eventually('a second life', () =>
      service.started.some(({ run }) => run.startsWith('lives') && run.endsWith('.2')),
    );
    await update();
    await pace(FAST);
    updated.open();
    const trajectory = await within('the end', ended('lives'));
    const [before, now] = [String(version - 1), String(version)];
    assert.deepEqual(labels(trajectory), [[before], [before, now], [now]]);
    assert.equal(trajectory.lives.length, 2);
    // The second life has each answer from its first byte, and what the first one heard of it.
    const [first, cut, ...rest] = heard.map(({ text }) => text);
    assert.deepEqual(
      rest,
      trajectory.calls.map(({ answer }) => answer?.content),
    );
    assert.equal(rest[0], first);
    assert.ok(rest[1]!.startsWith(cut!));
  });
});
