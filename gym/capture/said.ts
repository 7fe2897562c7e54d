import type { Json, JsonObject } from '../json/exact.js';
import { isObject, objectsIn, parseJson } from '../json/exact.js';

/** What the model said in one call besides its text, in any of three dialects. */
export interface Said {
  tool_calls: JsonObject[];
  reasoning_content: string | null;
}

/** Python's `or`: an empty text counts as missing. */
const textOr = (...values: (Json | undefined)[]): Json =>
  values.find((value) => value !== undefined && value !== null && value !== '') ?? null;

export function saidIn(response: JsonObject): Said {
  const { output, choices, content } = response;
  if (Array.isArray(output)) return ofResponses(objectsIn(output));
  if (Array.isArray(choices)) return ofChat(objectsIn(choices));
  return ofMessages(objectsIn(content));
}

const said = (tool_calls: JsonObject[], reasoning: (Json | undefined)[]): Said => {
  const texts = reasoning.filter((text) => typeof text === 'string').filter((text) => text !== '');
  return { tool_calls, reasoning_content: texts.length === 0 ? null : texts.join('\n') };
};

function ofResponses(output: JsonObject[]): Said {
  const calls = output.filter(({ type }) => type === 'function_call');
  const reasoning = output.filter(({ type }) => type === 'reasoning');
  return said(
    calls.map(({ call_id, id, name, arguments: given }) => ({
      call_id: textOr(call_id, id),
      name: name ?? null,
      arguments: argumentsOf(given),
    })),
    reasoning.flatMap(({ summary }) => objectsIn(summary).map(({ text }) => text)),
  );
}

function ofChat(choices: JsonObject[]): Said {
  const messages = choices.map(({ message }) => message).filter(isObject);
  const calls = messages.flatMap(({ tool_calls }) => objectsIn(tool_calls));
  return said(
    calls.map(({ id, function: called }) => ({
      call_id: id ?? null,
      name: isObject(called) ? (called['name'] ?? null) : null,
      arguments: argumentsOf(isObject(called) ? called['arguments'] : undefined),
    })),
    messages.map(({ reasoning_content, reasoning }) => textOr(reasoning_content, reasoning)),
  );
}

function ofMessages(content: JsonObject[]): Said {
  const calls = content.filter(({ type }) => type === 'tool_use');
  const thoughts = content.filter(
    ({ type }) => type === 'thinking' || type === 'redacted_thinking',
  );
  return said(
    calls.map(({ id, name, input }) => ({
      call_id: id ?? null,
      name: name ?? null,
      arguments: input ?? {},
    })),
    thoughts.map(({ thinking }) => thinking),
  );
}

function argumentsOf(given: Json | undefined): Json {
  if (isObject(given)) return given;
  if (typeof given !== 'string') return {};
  try {
    return parseJson(given);
  } catch {
    return { _raw: given };
  }
}
