/**
 * A model behind OpenAI's chat completions, for NeMo Gym's `vllm_model`: what it says is a hash of the conversation, so
 * that two collectors get the same. It calls a tool once where it is given some. Tokens are characters. A conversation
 * with FAIL500 in it is answered 500. PORT and DELAY_MS come from the environment.
 */
import { createHash } from 'node:crypto';
import { createServer } from 'node:http';

const { PORT = '0', DELAY_MS = '20' } = process.env;
const counts = { completions: 0, failed: 0 };

const textOf = (content) =>
  typeof content === 'string' ? content : (content ?? []).map(({ text }) => text ?? '').join('');
/** A call that comes back in the history is the same text, in whichever order its fields are. */
const callOf = ({ function: { name, arguments: given } }) => JSON.stringify({ name, given });
const bodyOf = ({ content, tool_calls = [] }) =>
  textOf(content ?? '') + (tool_calls ?? []).map(callOf).join('');
const idsOf = (text) => Array.from(text, (character) => character.codePointAt(0) % 50000);
/** Each message is between marks; a prompt ends where the answer begins. */
const promptOf = (messages) =>
  messages.map((message) => `\u0002${message.role}\n${bodyOf(message)}\u0003`).join('') +
  '\u0002assistant\n';

function answer({ messages, tools = [] }) {
  const hash = createHash('sha256').update(JSON.stringify(messages)).digest('hex');
  const hasCalled = messages.some(({ role }) => role === 'tool');
  const tool = tools?.[0]?.function;
  if (tool !== undefined && !hasCalled) {
    const given = Object.keys(tool.parameters?.properties ?? {}).map((name) => [
      name,
      hash.slice(0, 6),
    ]);
    const called = { name: tool.name, arguments: JSON.stringify(Object.fromEntries(given)) };
    const call = { id: `call_${hash.slice(0, 8)}`, type: 'function', function: called };
    return {
      message: { role: 'assistant', content: null, tool_calls: [call] },
      finish_reason: 'tool_calls',
    };
  }
  const letter = 'ABCDEFGHIJ'[Number.parseInt(hash.slice(0, 4), 16) % 10];
  const content = `${hash.slice(0, 12)} \\boxed{${letter}}`;
  return { message: { role: 'assistant', content }, finish_reason: 'stop' };
}

function completion(body) {
  const { message, finish_reason } = answer(body);
  const generated = `${bodyOf(message)}\u0003`;
  const prompt = promptOf(body.messages);
  const ids = idsOf(generated);
  const usage = {
    prompt_tokens: prompt.length,
    completion_tokens: ids.length,
    total_tokens: prompt.length + ids.length,
  };
  const logprobs = {
    content: ids.map((id, at) => ({
      token: `token_id:${id}`,
      logprob: -((at % 7) + 1) / 8,
      bytes: null,
      top_logprobs: [],
    })),
  };
  const id = `chatcmpl-${createHash('sha256').update(prompt).digest('hex').slice(0, 16)}`;
  const choice = { index: 0, message, finish_reason, ...(body.logprobs && { logprobs }) };
  return {
    id,
    object: 'chat.completion',
    created: 1,
    model: body.model ?? 'stub',
    choices: [choice],
    usage,
  };
}

const server = createServer(async (request, response) => {
  const say = (status, value) => {
    response.writeHead(status, { 'content-type': 'application/json' });
    response.end(JSON.stringify(value));
  };
  const parts = [];
  for await (const part of request) parts.push(part);
  if (request.url === '/counts') return say(200, counts);
  if (request.url.endsWith('/models'))
    return say(200, { object: 'list', data: [{ id: 'stub', object: 'model' }] });
  const text = Buffer.concat(parts).toString();
  const body = text === '' ? {} : JSON.parse(text);
  if (request.url.endsWith('/tokenize')) {
    const tokens = idsOf(promptOf(body.messages));
    return say(200, { tokens, count: tokens.length, max_model_len: 100000 });
  }
  await new Promise((resolve) => setTimeout(resolve, Number(DELAY_MS)));
  if (text.includes('FAIL500')) {
    counts.failed += 1;
    return say(500, { error: { message: 'the stub was asked to fail', type: 'server_error' } });
  }
  counts.completions += 1;
  return say(200, completion(body));
});
server.listen(Number(PORT), '127.0.0.1', () => {
  console.log(JSON.stringify({ port: server.address().port }));
});
