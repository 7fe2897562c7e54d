import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { createVllmService } from '../../src/generation/vllm/vllm-service.js';
import { Fault } from '../../src/model/faults.js';
import { templateProblem } from '../../src/model/turn/template-check.js';
import type { Recorded } from './replay.js';
import { CASES, conversationOf, templateOf } from './replay.js';

/** Writes renderings.json from serve.py: `node --import tsx test/templates/record.ts http://127.0.0.1:PORT` */

const { signal } = new AbortController();
const recorded: Recorded[] = [];
for (const { name, kwargs } of CASES) {
  const service = createVllmService({
    base_url: `${process.argv[2] ?? ''}/${name}/v1`,
    api_key: null,
    first_token_timeout_ms: 1000,
    idle_timeout_ms: 1000,
  });
  const answers: Recorded['answers'] = {};
  const keep = async (key: unknown, ask: () => Promise<number[] | string>) => {
    const answer = await ask().catch((error: unknown) => {
      if (error instanceof Fault) return { error: error.message.replace(/^.*?: 400 /, '400 ') };
      throw error;
    });
    answers[JSON.stringify(key)] = answer;
    return answer;
  };
  const model = 'model';
  const template = templateOf({
    render: (messages, options) =>
      keep({ messages, ...options }, () =>
        service.renderChat({ model, messages, ...options, chat_template_kwargs: kwargs }, signal),
      ),
    encode: (text) =>
      keep({ text }, () => service.tokenize({ model, text, add_special_tokens: false }, signal)),
    decode: (token_ids) =>
      keep({ token_ids }, () => service.detokenize({ model, token_ids }, signal)),
  });
  for (const conversation of CASES.filter(
    (one) => one.name === name && one.kwargs === kwargs,
  ).flatMap(conversationOf))
    console.log(
      name,
      JSON.stringify(kwargs),
      conversation.role,
      conversation.prompt.join(),
      await templateProblem(conversation, template),
    );
  recorded.push({ name, kwargs, answers });
  await service.close();
}
await writeFile(path.join(import.meta.dirname, 'renderings.json'), `${JSON.stringify(recorded)}\n`);
