import { encode, renderChat } from '../../src/dev/simulator/policy/tokenizer.js';
import { textOf } from '../../src/model/content.js';
import type { Template } from './scripted-service.js';

/** The simulator's template and tokenizer. */
export const chatml: Template = (messages, options) =>
  encode(renderChat(messages.map(({ role, content }) => ({ role, content: textOf(content) })), options)); // prettier-ignore
