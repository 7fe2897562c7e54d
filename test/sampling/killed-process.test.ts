/** Two answers of one rollout whose process is killed in the middle of both streams. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { test } from 'node:test';
import type { RequestEntry } from '../../simulator/request-log.js';
import { startSimulator } from '../../simulator/server.js';
import { openAnswer } from '../../src/model/journal/open-answers.js';
import { REF, temporaryStore } from '../fakes/temporary-store.js';
import { eventually } from '../../lab/bed/waiting.js';
import { countsOf, sampleTwo } from '../servers/sampling-process.js';

const PROCESS = path.join(import.meta.dirname, '../servers/sampling-process.js');

test('both continue after their last journalled tokens', async (t) => {
  const settings = { tokens_per_second: 40, thinking_tokens: 50, seed: 5 };
  const simulator = await startSimulator({ settings, port: 0 });
  t.after(() => simulator.close());
  const engine = `${simulator.url}/v1`;
  const { root, elsewhere } = await temporaryStore(t);
  const child = spawn(process.execPath, [PROCESS, root, engine], { stdio: 'inherit' });
  const exited = once(child, 'exit');
  t.after(() => child.kill('SIGKILL'));
  await eventually('tokens of both answers', async () =>
    countsOf(await elsewhere().readTrajectory(REF)).every((count) => count >= 5),
  );
  child.kill('SIGKILL');
  assert.deepEqual(await exited, [null, 'SIGKILL']);

  const { before, after, outcomes } = await sampleTwo(root, engine);
  assert.deepEqual(outcomes, ['sampled', 'sampled']);
  const answer = await fetch(`${simulator.url}/simulator/requests`);
  const { requests } = (await answer.json()) as { requests: RequestEntry[] };
  for (const [turn, count] of countsOf(before).entries()) {
    const [was, is] = [before, after].map((one) => openAnswer(one, turn));
    assert.equal(was?.generation, null);
    assert.ok(is?.generation && count >= 5);
    assert.deepEqual(is.token_ids.slice(0, count), was.token_ids);
    assert.deepEqual(is.logprobs.slice(0, count), was.logprobs);
    assert.equal(is.inherited, count);
    const sent = requests.filter((one) => one.turn === turn).map((one) => one.prompt_tokens ?? 0);
    assert.deepEqual(sent, [sent[0], sent[0]! + count]);
  }
  assert.equal(after.wasted_tokens, 0);
});
