import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { encode } from '../../simulator/policy/tokenizer.js';
import { createVllmService } from '../../src/generation/vllm/vllm-service.js';
import { AT, activityBench } from '../fakes/activity-bench.js';
import { withoutEnvironment } from '../fakes/chatml.js';
import { author, entryOf, GENERATION } from '../fakes/journal-lines.js';
import { scriptedEnvironment } from '../fakes/scripted-environment.js';
import { BATCH, REF } from '../fakes/temporary-store.js';
import { readRows } from '../../lab/bed/batch.js';
import { startTemplateServer } from '../servers/template-server.js';

const a = author('');

describe('a role that the chat template does not take', () => {
  test('is sent under the name that role_map has for it; the row keeps the environment’s', async (t) => {
    const server = await startTemplateServer(withoutEnvironment);
    const service = createVllmService({
      base_url: server.base_url,
      api_key: null,
      first_token_timeout_ms: 10_000,
      idle_timeout_ms: 10_000,
      role_map: { environment: 'tool' },
    });
    t.after(async () => {
      await service.close();
      await server.close();
    });
    const bench = await activityBench(t, {
      replicas: [service],
      environment: scriptedEnvironment([{ content: 'x', terminated: true }]),
    });
    await bench.started({
      settings: { generation: { ...GENERATION, observation_format: 'chat' } },
    });
    const journal = await bench.store.claim(REF, { activity: 'generateTurn' });
    const says = encode('hello');
    await journal.append(entryOf(a.chunk({ token_ids: says })));
    await journal.append(entryOf(a.generation({ content: 'hello', token_count: says.length })));
    await journal.commit();
    await bench.result('stepEnvironment', AT);
    const { files } = await bench.result('closeBatch', { batch_id: BATCH, stopped: false });

    const sent = new Set(server.chats.flatMap(({ messages }) => messages.map(({ role }) => role)));
    assert.deepEqual([...sent].sort(), ['assistant', 'tool', 'user']);
    const [row] = await readRows(files.rollouts);
    const observation = row?.message_log.at(-1);
    assert.deepEqual([observation?.role, observation?.content], ['environment', 'x']);
    const behind = '<|im_end|>\n<|im_start|>tool\nx<|im_end|>\n<|im_start|>assistant\n';
    assert.deepEqual(observation?.token_ids, encode(behind));
  });
});
