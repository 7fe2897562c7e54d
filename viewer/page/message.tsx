import type { JSX } from 'preact';
import type { Message, Part } from '../documents.js';
import { Markdown } from './markdown.js';
import { Raw, Shown } from './text.js';
import { plural } from './words.js';

export function MessageView({ message, isRaw }: { message: Message; isRaw: boolean }): JSX.Element {
  const { role, parts, token_count, reasoning, tool_calls = [], tool_call_id, is_error } = message;
  return (
    <article class={`message ${roleClass(role)}`}>
      <h3>
        <Shown text={role} />
        <span class="quiet">
          {' '}
          {[
            token_count !== null && plural(token_count, 'token'),
            plural(charactersOf(parts), 'character'),
          ]
            .filter((size) => size !== false)
            .join(', ')}
        </span>
        {tool_call_id !== undefined && (
          <span class="quiet">
            {' '}
            answers <Shown text={tool_call_id} />
          </span>
        )}
        {is_error === true && <span class="flag bad">✕ error</span>}
      </h3>
      {reasoning !== undefined && <Thoughts text={reasoning} isRaw={isRaw} />}
      {parts.map((part, index) => (
        <PartView key={index} part={part} isRaw={isRaw} />
      ))}
      <ToolCalls calls={tool_calls} />
    </article>
  );
}

/** A limit that cuts texts counts characters. */
const charactersOf = (parts: readonly Part[]): number =>
  parts.reduce((sum, part) => sum + (part.kind === 'text' ? part.text.length : 0), 0);

const roleClass = (role: string): string =>
  ['system', 'user', 'assistant', 'tool'].includes(role) ? role : 'other';

function PartView({ part, isRaw }: { part: Part; isRaw: boolean }): JSX.Element {
  if (part.kind === 'text') return <Words text={part.text} isRaw={isRaw} />;
  const { url, name } = part;
  // A picture from elsewhere would tell its server that somebody looks.
  if (url?.startsWith('data:image/') === true) return <img class="picture" src={url} alt={name} />;
  return (
    <p class="quiet">
      [picture <Shown text={name} />, which the store does not have]
    </p>
  );
}

export const Words = ({ text, isRaw }: { text: string; isRaw: boolean }): JSX.Element =>
  isRaw ? <Raw text={text} /> : <Markdown text={text} />;

export const Thoughts = ({ text, isRaw }: { text: string; isRaw: boolean }): JSX.Element => (
  <details class="thoughts" open>
    <summary>Thoughts, {plural(text.length, 'character')}</summary>
    <Words text={text} isRaw={isRaw} />
  </details>
);

export function ToolCalls({
  calls,
}: {
  calls: { id: string; name: string; arguments: string }[];
}): JSX.Element {
  return (
    <>
      {calls.map((call, index) => (
        <section key={index} class="tool-call" aria-label={`call of tool ${call.name}`}>
          <h4>
            <span aria-hidden="true">⚙ </span>
            <Shown text={call.name} />{' '}
            <span class="quiet">
              <Shown text={call.id} />
            </span>
          </h4>
          <Raw text={indented(call.arguments)} />
        </section>
      ))}
    </>
  );
}

/** JSON in lines; other text, and JSON that is long, as it is. */
function indented(text: string): string {
  if (text.length > 50_000) return text;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
