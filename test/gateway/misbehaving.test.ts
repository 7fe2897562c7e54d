/** Clients that misbehave get a clear answer in their dialect's words, and no call beside them notices. */
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, test } from 'node:test';
import { keyOf } from '../../src/gateway/request/key.js';
import { Fault } from '../../src/model/faults.js';
import { beside } from './beside.js';
import { says } from './asking.js';
import { gatewayBed, poolFor, SECRET } from './gateway-bed.js';
import { within } from '../../lab/bed/waiting.js';

interface Told {
  status: number;
  message: string;
  code: string;
  headers: Headers;
}

async function told(reply: Response): Promise<Told> {
  const { error } = (await reply.json()) as {
    error: { message: string; code: string; type: string; param: string | null };
  };
  assert.deepEqual(Object.keys(error).sort(), ['code', 'message', 'param', 'type']);
  return { status: reply.status, message: error.message, code: error.code, headers: reply.headers };
}

const USER = { role: 'user', content: 'Say: yes' };
const asks = (more: object): object => ({ model: 'policy', messages: [USER], ...more });

describe('a request that is no request', () => {
  const bodies: Record<string, [body: string | object, status: number, says: RegExp]> = {
    'bad JSON': ['{"model": ', 400, /expected JSON as the body/],
    'no object': ['[]', 400, /expected a JSON object/],
    'no text at all': ['', 400, /JSON/],
    'deep JSON': [`{"messages": ${'['.repeat(9999)}${']'.repeat(9999)}}`, 400, /512 levels/],
    'too many messages': [
      asks({ messages: Array.from({ length: 10_001 }, () => USER) }),
      400,
      /messages: .*10000/s,
    ],
    '9 MiB': [
      asks({ messages: [{ role: 'user', content: 'x'.repeat(9 * 1024 * 1024) }] }),
      413,
      /at most 8388608 bytes/,
    ],
    'several answers': [asks({ n: 4 }), 400, /n: expected 1, got 4/],
    'an answer begun': [
      asks({ messages: [USER, { role: 'assistant', content: 'I' }] }),
      400,
      /prefill/,
    ],
    'a picture by URL': [
      asks({
        messages: [
          {
            role: 'user',
            content: [{ type: 'image_url', image_url: { url: 'http://169.254.169.254/' } }],
          },
        ],
      }),
      400,
      /no address is opened/,
    ],
    'a schema': [asks({ response_format: { type: 'json_object' } }), 400, /response_format/],
  };
  for (const [what, [body, status, message]] of Object.entries(bodies))
    test(what, async (t) => {
      const { life } = await beside(t, async (life) => {
        const answer = await told(await life.post(body));
        assert.equal(answer.status, status, answer.message);
        assert.match(answer.message, message);
        assert.equal(answer.headers.get('x-should-retry'), 'false');
      });
      assert.equal(life.journal.trajectory.calls.length, 1);
    });

  test('a name that JavaScript treats as its own survives', async (t) => {
    await beside(t, async (life) => {
      const body = `{"model":"policy","__proto__":{"n":4},"messages":[{"role":"user","content":"Say: yes","__proto__":{"x":1}}]}`;
      assert.equal((await life.post(body)).status, 200);
    });
  });
});

describe('a path or key that is none', () => {
  test('unknown paths are 404', async (t) => {
    await beside(t, async (life) => {
      for (const path of [
        'completions',
        'embeddings',
        'responses/compact',
        'chat/completions/x',
        'files',
      ]) {
        const answer = await told(
          await fetch(`${life.url}/${path}`, { method: 'POST', headers: life.headers }),
        );
        assert.equal(answer.status, 404);
        assert.match(answer.message, /unknown request URL: POST \/v1\//);
      }
      const root = life.url.replace('/v1', '/');
      assert.equal((await fetch(root, { method: 'HEAD' })).status, 200);
      assert.equal((await fetch(root)).status, 200);
    });
  });

  test('wrong keys are 401, are not repeated, and end the connection', async (t) => {
    await beside(t, async (life) => {
      const { key } = life.session;
      const other = keyOf({ rollout_id: 'batch/0-0', life: 1, writer: 'w' }, 'another secret');
      for (const wrong of ['sk-no-key', `${key.slice(0, -1)}_`, other, 'x'.repeat(5000)]) {
        const answer = await told(
          await life.post(says('yes'), { headers: { authorization: `Bearer ${wrong}` } }),
        );
        assert.equal(answer.status, 401);
        assert.ok(!answer.message.includes(wrong));
        assert.equal(answer.headers.get('connection'), 'close');
      }
    });
  });

  test('a key may stand in a header or in the path', async (t) => {
    await beside(t, async (life) => {
      const { key } = life.session;
      const root = life.url.replace('/v1', '');
      for (const url of [`${root}/k/${key}/v1/models`, `${root}/ng-rollout/${key}/v1/models`]) {
        const { data } = (await (await fetch(url)).json()) as { data: { id: string }[] };
        assert.deepEqual(
          data.map(({ id }) => id),
          ['simulator'],
        );
      }
      assert.equal(
        (await fetch(`${life.url}/models`, { headers: { 'x-api-key': key } })).status,
        200,
      );
    });
  });

  test("another rollout's key answers for that rollout, and one that nobody holds is asked for again", async (t) => {
    const { open, life } = await beside(t, async (life) => {
      const key = keyOf({ rollout_id: 'batch/7-0', life: 1, writer: 'w' }, SECRET);
      const answer = await told(
        await life.post(says('yes'), { headers: { authorization: `Bearer ${key}` } }),
      );
      assert.equal(answer.status, 503);
      assert.deepEqual(
        [answer.headers.get('retry-after'), answer.headers.get('x-should-retry')],
        ['5', 'true'],
      );
    });
    const other = await open({ row: 1 });
    assert.equal((await life.post(says('no'), { headers: other.headers })).status, 200);
    assert.equal(other.journal.trajectory.calls.length, 1);
    assert.equal(life.journal.trajectory.calls.length, 1);
  });

  test('a life that is over is 409 and a rollout that has ended 410', async (t) => {
    const { open, life } = await beside(t, () => Promise.resolve());
    await life.session.end('moved');
    await life.journal.release();
    const next = await open();
    const dead = await told(await life.post(says('yes')));
    assert.equal(dead.status, 409);
    assert.equal((await next.post(says('yes'))).status, 200);
    await next.session.end('over');
    const answer = await told(await next.post(says('yes')));
    assert.equal(answer.status, 410);
    assert.equal(answer.headers.get('connection'), 'close');
    assert.equal(answer.headers.get('x-should-retry'), 'false');
  });

  test('an attempt that ends late takes nothing from the next one, which came to the same process', async (t) => {
    const { open } = await gatewayBed(t, { times: { parked_ms: 50 } });
    const life = await open();
    const next = await open({ again: true });
    for (const why of ['moved', 'over'] as const) await life.session.end(why);
    assert.equal((await next.post(says('yes'))).status, 200);
  });

  test('a call between two attempts waits for the next one', async (t) => {
    const { open } = await gatewayBed(t);
    const life = await open();
    await life.session.end('moved');
    await life.journal.release();
    const asked = life.post(says('yes'));
    await sleep(100);
    await open({ again: true });
    assert.equal((await asked).status, 200);
  });
});

describe('limits', () => {
  test('of calls: 400, one line, and the program has a moment to end', async (t) => {
    const { life } = await beside(t, {
      given: { limits: { calls: 2 } },
      act: async (life) => {
        for (let k = 0; k < 3; k++)
          assert.equal((await life.post(says(`${k}`))).status, k === 0 ? 200 : 400);
        const answer = await told(await life.post(says('again')));
        assert.deepEqual([answer.status, answer.code], [400, 'rollout_limit']);
        await told(await life.post(says('again')));
        await within('the end of its moment', life.session.overstays);
      },
    });
    const refused = (await life.lines()).filter(({ kind }) => kind === 'refused');
    assert.equal(refused.length, 3);
    assert.ok(refused.every((line) => line.kind === 'refused' && line.limit === 'calls'));
  });

  test('of sequences: what continues goes on, what begins is refused', async (t) => {
    await beside(t, {
      given: { limits: { sequences: 1 } },
      act: async (life) => {
        assert.equal((await told(await life.post(says('another')))).code, 'rollout_limit');
      },
    });
  });

  test('of sequences: a program that goes on in what it may do is not ended', async (t) => {
    const { open } = await gatewayBed(t, { times: { overstay_ms: 3000 } });
    const life = await open({ limits: { sequences: 1 } });
    let overstays = false;
    void life.session.overstays.then(() => (overstays = true));
    const first = { role: 'user', content: 'Say: one' };
    assert.equal((await life.post({ messages: [first] })).status, 200);
    assert.equal((await life.post(says('a helper'))).status, 400);
    const more = [
      first,
      { role: 'assistant', content: 'one' },
      { role: 'user', content: 'Say: two' },
    ];
    assert.equal((await life.post({ messages: more })).status, 200);
    await sleep(3500);
    assert.equal(overstays, false);
    // The same refusal within a minute, behind an answer: an exit now is the limit's.
    assert.equal((await life.post(says('a helper'))).status, 400);
    assert.equal(life.journal.trajectory.lives[0]?.refusal?.limit, 'sequences');
    await within('the end of its moment', life.session.overstays);
  });

  test('hold on for the next attempt: a program that was refused has no more time than before', async (t) => {
    const { open } = await gatewayBed(t, { times: { overstay_ms: 150 } });
    const life = await open({ limits: { calls: 1 } });
    assert.equal((await life.post(says('one'))).status, 200);
    assert.equal((await life.post(says('two'))).status, 400);
    await life.session.end('moved');
    await life.journal.release();
    const next = await open({ limits: { calls: 1 }, again: true });
    await within('the end of its moment', next.session.overstays);
  });

  test('600 calls of a rollout that may have 5 get as many answers', async (t) => {
    const { open } = await gatewayBed(t);
    const life = await open({ limits: { calls: 5 } });
    const replies = await Promise.all(
      Array.from({ length: 600 }, (_, k) => life.post(says(`${k}`))),
    );
    assert.equal(replies.filter(({ status }) => status === 200).length, 5);
    assert.equal(replies.filter(({ status }) => status === 400).length, 595);
    assert.equal(life.journal.trajectory.calls.length, 5);
  });

  test('200 connections at once are answered in the order in which they came', async (t) => {
    const { open } = await gatewayBed(t);
    const life = await open({ limits: { parallel: 2 } });
    const replies = await Promise.all(
      Array.from({ length: 200 }, (_, k) => life.post(says(`number ${k}`))),
    );
    const bodies = (await Promise.all(replies.map((reply) => reply.json()))) as {
      choices: { message: { content: string } }[];
    }[];
    bodies.forEach(({ choices }, k) => {
      assert.equal(choices[0]!.message.content, `number ${k}`);
    });
  });

  test('a full context is 400 in the words that agents look for', async (t) => {
    const { open } = await gatewayBed(t);
    const life = await open({ rollout: { max_seq_len: 50 } });
    const answer = await told(await life.post(says('x'.repeat(100))));
    assert.deepEqual([answer.status, answer.code], [400, 'context_length_exceeded']);
    assert.match(answer.message, /maximum context length is 50 tokens/);
    const refused = (await life.lines()).filter(({ kind }) => kind === 'refused');
    assert.equal(refused.length, 1);
  });

  test('a text that no context has room for is a full context, and no engine sees it', async (t) => {
    const { open, service } = await gatewayBed(t);
    let rendered = 0;
    const renderChat: typeof service.renderChat = (...given) => {
      rendered += 1;
      return service.renderChat(...given);
    };
    const life = await open({ pool: poolFor({ ...service, renderChat }) });
    const answer = await told(await life.post(says('printed '.repeat(900_000))));
    assert.deepEqual([answer.status, answer.code], [400, 'context_length_exceeded']);
    assert.match(answer.message, /context length is 4000 tokens.*resulted in at least \d+ tokens/);
    const blank = await told(await life.post(says(`${' '.repeat(900_000)}x`)));
    assert.equal(blank.code, 'context_length_exceeded');
    assert.deepEqual([rendered, life.session.ourFault()], [1, null]);
  });

  test('so is one of more tokens than an engine can say', async (t) => {
    const { open, service } = await gatewayBed(t);
    const message = 'the text has more tokens than any prompt';
    const renderChat = () => Promise.reject(new Fault({ type: 'PromptTooLong', message }));
    const life = await open({ pool: poolFor({ ...service, renderChat }) });
    const answer = await told(await life.post(says('yes')));
    assert.deepEqual([answer.status, answer.code], [400, 'context_length_exceeded']);
    assert.equal(life.session.ourFault(), null);
    assert.deepEqual(
      (await life.lines()).filter(({ kind }) => kind === 'fault'),
      [],
    );
  });
});
