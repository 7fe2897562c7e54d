import { renderChat } from '../../simulator/policy/chat-template.js';
import { encode } from '../../simulator/policy/tokenizer.js';
import { textOf } from '../../src/model/content.js';
import type { Template } from './scripted-service.js';

/** The simulator's template and tokenizer. */
export const chatml: Template = (messages, options) =>
  encode(
    renderChat(
      messages.map(({ role, content }) => ({ role, content: textOf(content) })),
      options,
    ),
  );

/** A template that cuts what was thought from all answers but the last message. */
export const forgetful: Template = (messages, options) =>
  chatml(
    messages.map((message, k) =>
      k === messages.length - 1
        ? message
        : { ...message, content: textOf(message.content).replace(/<think>.*<\/think>\s*/s, '') },
    ),
    options,
  );

/** One that has no messages of role environment. */
export const withoutEnvironment: Template = (messages, options) =>
  chatml(
    messages.filter(({ role }) => role !== 'environment'),
    options,
  );
