/** Programs whose journals are in PostgreSQL: nothing is said that another process could not read there. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { openAnswer } from '../../src/model/journal/open-answers.js';
import { endServer, postgresStore } from '../fakes/stores.js';
import { REF } from '../fakes/temporary-store.js';
import { noPostgres } from '../../lab/bed/postgres-server.js';
import { readStream, says } from './asking.js';
import { gatewayBed } from './gateway-bed.js';

describe('a gateway whose journals are in PostgreSQL', { skip: noPostgres }, () => {
  endServer();

  test('says of a stream what is stored, and the next attempt gives the rest', async (t) => {
    const { store, elsewhere } = await postgresStore(t);
    // It would take half a minute: on a slow machine, too, the other worker is there before its end.
    const slow = await gatewayBed(t, { store, simulator: { tokens_per_second: 4 } });
    const fast = await gatewayBed(t, { store });
    const first = await slow.open();
    const answer = 'word '.repeat(120).trim();
    const asked = { ...says(answer), stream: true };
    const reader = (await first.post(asked)).body!.pipeThrough(new TextDecoderStream()).getReader();
    const read = async (): Promise<string | undefined> => (await reader.read()).value;
    let text = '';
    for (
      let part = await read();
      part !== undefined && !text.includes('word word');
      part = await read()
    ) {
      text += part;
      const trajectory = await elsewhere().readTrajectory(REF);
      const stored = openAnswer(trajectory, 0).text;
      const said = readStream(text.slice(0, text.lastIndexOf('\n\n') + 2)).content;
      assert.ok(
        stored.startsWith(said),
        `${JSON.stringify(said)} was said of ${JSON.stringify(stored)}`,
      );
    }
    // Another worker takes the rollout over; this one notices with its next line.
    const next = await fast.open({ again: true });
    for (
      let part = await read().catch(() => undefined);
      part !== undefined;
      part = await read().catch(() => undefined)
    )
      text += part;
    assert.equal(readStream(text).isDone, false);
    await first.session.end('moved');
    const { content, isDone } = readStream(await (await next.post(asked)).text());
    assert.deepEqual([content, isDone], [answer, true]);
    assert.deepEqual([slow.requests.length, fast.requests.length], [1, 1]);
    const { calls, lives } = await elsewhere().readTrajectory(REF);
    assert.deepEqual([calls.length, lives.length, calls[0]?.answer?.content], [1, 1, content]);
  });

  test('keeps tools, refusals and deliveries there, as another process reads them', async (t) => {
    const { store, elsewhere } = await postgresStore(t);
    const { open } = await gatewayBed(t, { store, simulator: { skill: 10 } });
    const life = await open({ limits: { calls: 2 } });
    const tools = [
      {
        type: 'function',
        function: { name: 'run', parameters: { const: 12345678901234567890n.toString() } },
      },
    ];
    const call = { role: 'user', content: 'Call: {"name": "run", "arguments": {"n": 1}}' };
    const { choices } = (await (await life.post({ messages: [call], tools })).json()) as {
      choices: { message: { tool_calls: { id: string }[] } }[];
    };
    const { message } = choices[0]!;
    const result = {
      role: 'tool',
      tool_call_id: message.tool_calls[0]!.id,
      content: 'a "file"\u0000\ud83e\udde9',
    };
    await (await life.post({ messages: [call, message, result], tools })).text();
    assert.equal((await life.post(says('more'))).status, 400);
    await life.session.end('over');
    await life.journal.sync();
    const { calls, materials, refused } = await elsewhere().readTrajectory(REF);
    assert.deepEqual([calls.length, materials.size, refused.length], [2, 1, 1]);
    assert.deepEqual(
      calls.map(({ given }) => given.get(1)),
      [true, true],
    );
    assert.equal(calls[0]?.answer?.tool_calls[0]?.arguments, '{"n": 1}');
    assert.equal(calls[1]?.line.news[0]?.content, result.content);
  });
});
