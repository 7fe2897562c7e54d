import type { JSX } from 'preact';
import type { RolloutDocument } from '../documents.js';
import { Raw, Shown } from './text.js';

/** Of programs: their lives, what was refused, what an agent answered. */
export function Ending({ rollout }: { rollout: RolloutDocument }): JSX.Element {
  const { lives, refused, agent_result } = rollout;
  return (
    <>
      {lives.length > 0 && (
        <section aria-labelledby="lives-title">
          <h2 id="lives-title">Lives</h2>
          <ol class="lives">
            {lives.map(({ life, exit }) => (
              <li key={life}>
                life {life}:{' '}
                {exit === null
                  ? 'goes on'
                  : exit.signal === null
                    ? `ended with code ${exit.code ?? '–'}`
                    : `killed by ${exit.signal}`}
                {exit !== null && exit.tail !== '' && <Raw text={exit.tail} />}
              </li>
            ))}
          </ol>
        </section>
      )}
      {refused.length > 0 && (
        <section aria-labelledby="refused-title">
          <h2 id="refused-title">Refused requests</h2>
          <ul>
            {refused.map(({ life, code, message }, index) => (
              <li key={index}>
                life {life}, {code}: <Shown text={message} />
              </li>
            ))}
          </ul>
        </section>
      )}
      {agent_result !== null && (
        <details>
          <summary>What the agent answered</summary>
          <Raw text={agent_result} />
        </details>
      )}
    </>
  );
}
