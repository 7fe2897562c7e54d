/** A rollout of many turns continues in new runs, and its callers do not notice. */
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { historyFromJSON, historyToJSON } from '@temporalio/common/lib/proto-utils.js';
import { DefaultLogger, Runtime, Worker } from '@temporalio/worker';
import { readJournal, startBatch } from '../../lab/bed/batch.js';
import { PROJECT_ROOT } from '../../lab/bed/server.js';
import type { Testbed } from '../harness/testbed.js';
import { startTestbed } from '../harness/testbed.js';
import { eventually } from '../../lab/bed/waiting.js';
import { idIn } from '../harness/written-history.js';

type History = ReturnType<typeof historyFromJSON>;

const QUEUE = 'long-rollout';
const TURNS = 200;
const RECORDED = fileURLToPath(new URL('../histories/rollout-continued.json', import.meta.url));
/** The beginning of a run is enough: its plan and a few turns. */
const RECORDED_EVENTS = 40;
const BUNDLE = { codePath: path.join(PROJECT_ROOT, 'dist', 'src', 'workflow-bundle.js') };

const REQUEST = {
  samples: [{ message_log: [{ role: 'user', content: 'go' }], task_name: 'maze' }],
  max_seq_len: 8000,
  max_rollout_turns: TURNS,
};

describe('a rollout of many turns', { concurrency: 2 }, () => {
  let bed: Testbed;

  before(async () => {
    Runtime.install({ logger: new DefaultLogger('WARN') });
    bed = await startTestbed('long-rollout');
    await bed.startWorker({
      task_queue: QUEUE,
      generation: { default: { kind: 'vllm', base_urls: [await bed.engine.listen(8000)] } },
      // On a queue of its own, so that each turn is two activities.
      environments: {
        maze: { kind: 'http', url: bed.environment.url, timeout: '10s', task_queue: 'mazes' },
      },
      worker: { heartbeat_timeout: '2s' },
    });
  });
  after(async () => {
    await bed.end();
    assert.deepEqual([...bed.engine.problems, ...bed.environment.problems], []);
  });

  const script = (id: string): void => {
    bed.engine.script(id, { generation: [[{ text: 'a', eos: true }]], after_last: 'repeat' });
    const observation = { role: 'environment', content: 'b' };
    const step = { observation, reward: 1, terminated: false, metadata: null, stop_strings: null };
    bed.environment.script(id, { steps: [[step]], after_last: 'repeat' });
  };

  const runOf = (id: string, runId?: string): Promise<History> =>
    bed.server.client.workflow.getHandle(`${id}/0-0`, runId).fetchHistory();

  /** The histories of all its runs, the first one first. */
  const runsOf = async (id: string): Promise<History[]> => {
    const runs = [await runOf(id)];
    for (;;) {
      const [first] = runs;
      const before =
        first?.events?.[0]?.workflowExecutionStartedEventAttributes?.continuedExecutionRunId;
      if (before == null || before === '') return runs;
      runs.unshift(await runOf(id, before));
    }
  };

  const replay = (history: History): Promise<void> =>
    Worker.runReplayHistory({ workflowBundle: BUNDLE }, history, idIn(history));

  test(`of ${TURNS} turns is played in several runs, none of them long, and its batch gets its result`, async () => {
    script('long');
    const batch = await startBatch(bed.batch('long', QUEUE), REQUEST);
    const { failure, rollouts } = await batch.outcome();
    assert.equal(failure, null);
    const [row] = rollouts;
    assert.deepEqual(
      [row?.turn_count, row?.total_reward, row?.stop_reason],
      [TURNS, TURNS, 'max_turns'],
    );
    const progress = await batch.handle.query<{ turns: number }>('progress');
    assert.equal(progress.turns, TURNS);
    const runs = await runsOf('long');
    assert.equal(runs.length, 2);
    for (const history of runs) {
      const { length } = history.events ?? [];
      assert.ok(length < 2100, `${length} events of a run`);
      await replay(history);
    }
    if (process.env['RECORD_HISTORIES'] === '1') {
      const events = (runs[1]?.events ?? []).slice(0, RECORDED_EVENTS);
      // After the commands of a workflow task, where a worker may have to replay it.
      const last = events.findLastIndex((event) => event.activityTaskScheduledEventAttributes);
      await writeFile(RECORDED, historyToJSON({ events: events.slice(0, last + 1) }));
    }
    const lines = await readJournal(bed.store_root, { batch_id: 'long', row: 0, repeat: 0 });
    assert.equal(lines.filter(({ kind }) => kind === 'start').length, 1);
  });

  test('is stopped in whichever run it is, and its deadline counts from the first', async () => {
    script('stopped');
    const batch = await startBatch(bed.batch('stopped', QUEUE), REQUEST);
    const rollout = bed.server.client.workflow.getHandle('stopped/0-0');
    const runId = async (): Promise<string | null> => {
      const described = await rollout.describe().catch(() => null);
      return described?.runId ?? null;
    };
    const first = await eventually('the first run', runId);
    await eventually('the second run', async () => {
      const now = await runId();
      return now !== null && now !== first;
    });
    await batch.handle.executeUpdate('set_limits', { args: [{ rollout_timeout: '10m' }] });
    const [timer = NaN] = await eventually('a timer of the second run', async () => {
      const { events } = await rollout.fetchHistory();
      const timers = (events ?? []).flatMap(({ timerStartedEventAttributes: timer }) =>
        timer ? [Number(timer.startToFireTimeout?.seconds)] : [],
      );
      return timers.length > 0 ? timers : null;
    });
    // The first run used some of the time.
    assert.ok(timer < 3600 - 2, `a timer of ${timer} s`);
    await batch.handle.signal('stop');
    const { result, failures } = await batch.outcome();
    assert.equal(result?.counts.stopped, 1);
    assert.ok(failures[0]!.turn_count > 100);
  });

  test('has a recorded run that continues from another, and it replays', async () => {
    const history = historyFromJSON(JSON.parse(await readFile(RECORDED, 'utf8')));
    const started = history.events?.[0]?.workflowExecutionStartedEventAttributes;
    assert.equal(started?.input?.payloads?.length, 2);
    await replay(history);
  });
});
