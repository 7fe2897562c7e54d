/** The dialect `/v1/responses` over a socket, as the agents of NeMo Gym ask. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import OpenAI from 'openai';
import type { Life } from './gateway-bed.js';
import { gatewayBed } from './gateway-bed.js';

const CALL: OpenAI.Responses.ResponseInputItem = {
  role: 'user',
  content: 'Call: {"name": "run", "arguments": {"command": "ls"}}',
};
const TOOLS: OpenAI.Responses.Tool[] = [
  { type: 'function', name: 'run', parameters: { type: 'object' }, strict: true },
];

/** Asks below this path. */
const clientOf = ({ url }: Life, below: string): OpenAI =>
  new OpenAI({
    baseURL: `${url.slice(0, -'/v1'.length)}${below}/v1`,
    apiKey: 'none',
    maxRetries: 0,
  });

describe('a run of NeMo Gym', () => {
  test('asks below its id, and its second call continues the first', async (t) => {
    const { open, requests } = await gatewayBed(t, { simulator: { skill: 10 } });
    const life = await open();
    const client = clientOf(life, `/ng-rollout/${life.session.key}-a2/training-token-capture`);
    const asked = { model: 'policy', instructions: 'Be brief.', tools: TOOLS };
    const first = await client.responses.create({ ...asked, input: [CALL] });
    const [call] = first.output.filter((item) => item.type === 'function_call');
    assert.deepEqual(
      [call?.call_id, call?.name, call?.arguments],
      ['call_0_0', 'run', '{"command": "ls"}'],
    );
    const second = await client.responses.create({
      ...asked,
      input: [
        CALL,
        // What its own models add to an item.
        ...(first.output.map((item) => ({
          ...item,
          prompt_token_ids: [1],
        })) as OpenAI.Responses.ResponseInput),
        { type: 'function_call_output', call_id: 'call_0_0', output: 'a file' },
      ],
    });
    assert.equal(second.status, 'completed');
    const { calls } = life.journal.trajectory;
    assert.deepEqual(
      calls.map(({ line }) => [line.parent, line.cause]),
      [
        [null, 'first'],
        [0, undefined],
      ],
    );
    const begun = [...requests[0]!.prompt_ids, ...calls[0]!.sampled.token_ids];
    assert.deepEqual(requests[1]!.prompt_ids.slice(0, begun.length), begun);
    assert.equal(second.usage?.input_tokens, requests[1]!.prompt_ids.length);
  });

  test('goes on in chat completions where it began in responses', async (t) => {
    const { open } = await gatewayBed(t);
    const life = await open();
    const client = clientOf(life, `/ng-rollout/${life.session.key}`);
    const { output_text } = await client.responses.create({ model: 'policy', input: 'Say: yes' });
    await client.chat.completions.create({
      model: 'policy',
      messages: [
        { role: 'user', content: 'Say: yes' },
        { role: 'assistant', content: output_text },
        { role: 'user', content: 'Say: no' },
      ],
    });
    assert.equal(output_text, 'yes');
    assert.equal(life.journal.trajectory.calls[1]!.line.parent, 0);
  });

  test('that is over is answered in the form that it asks for: whole, or as a stream', async (t) => {
    const { open } = await gatewayBed(t);
    const life = await open({ limits: { calls: 1 } });
    const { completions } = clientOf(life, `/ng-rollout/${life.session.key}`).chat;
    const asked = (content: string) => ({
      model: 'policy',
      messages: [{ role: 'user' as const, content }],
    });
    await completions.create(asked('Say: yes'));
    const whole = await completions.create(asked('Say: no'));
    assert.deepEqual(
      whole.choices.map(({ finish_reason, message }) => [finish_reason, message.content]),
      [['length', '']],
    );
    const events = await completions.create({
      ...asked('Say: why'),
      stream: true,
      stream_options: { include_usage: true },
    });
    const said: unknown[] = [];
    for await (const { choices, usage } of events)
      said.push([choices[0]?.delta, choices[0]?.finish_reason, usage?.completion_tokens]);
    assert.deepEqual(said, [
      [{ role: 'assistant', content: '' }, null, undefined],
      [{}, 'length', undefined],
      [undefined, undefined, 0],
    ]);
  });
});

test('what this dialect does not do yet is named, and another life would ask the same', async (t) => {
  const { open } = await gatewayBed(t);
  const life = await open();
  const client = clientOf(life, `/k/${life.session.key}`);
  const asked = { model: 'policy', input: 'Say: yes' };
  await assert.rejects(
    client.responses.create({ ...asked, stream: true }),
    (error) =>
      error instanceof OpenAI.APIError &&
      error.status === 400 &&
      error.param === 'stream' &&
      error.code === 'unsupported_parameter',
  );
  assert.match(life.session.misfit() ?? '', /stream: expected false/);
  await assert.rejects(
    client.responses.create({ ...asked, previous_response_id: 'resp_1' }),
    (error) =>
      error instanceof OpenAI.NotFoundError && error.code === 'previous_response_not_found',
  );
});
