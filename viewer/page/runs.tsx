import type { JSX } from 'preact';
import type { RunEntry } from '../documents.js';
import { hrefOf } from './address.js';
import { Forked } from './forked.js';
import { useLoaded } from './hooks.js';
import { Loading } from './loading.js';
import type { Source } from './source.js';
import { Shown } from './text.js';
import { aligned, outcomes, plural, time } from './words.js';

export function RunsView({ source }: { source: Source }): JSX.Element {
  const runs = useLoaded('runs', () => source.runs());
  return (
    <>
      <h1>Runs</h1>
      <Loading of={runs} what="the runs">
        {(list) =>
          list.length === 0 ? (
            <p>The store has no batch and no stream.</p>
          ) : (
            <div class="wide" tabIndex={0} role="group" aria-label="batches and streams">
              <table class="list runs">
                <thead>
                  <tr>
                    {['Run', 'Mean reward', 'Rollouts', 'State', 'Began'].map((name) => (
                      <th key={name} scope="col" class={name === 'Mean reward' ? 'number' : ''}>
                        {name}
                      </th>
                    ))}
                  </tr>
                </thead>
                <tbody>
                  {list.map((run) => (
                    <Line key={run.id} run={run} />
                  ))}
                </tbody>
              </table>
            </div>
          )
        }
      </Loading>
    </>
  );
}

function Line({ run }: { run: RunEntry }): JSX.Element {
  const { id, kind, created_at, is_closed, requested, completed, mean_reward } = run;
  const { steps, forked_from, problem } = run;
  const counts =
    completed === null || requested === null
      ? { 'asked for': requested ?? 0 }
      : { 'with a reward': completed, failed: requested - completed };
  const name = (
    <th scope="row">
      <a href={hrefOf({ run: id })}>
        <Shown text={id} />
      </a>
    </th>
  );
  if (problem !== null)
    return (
      <tr>
        {name}
        <td class="number">–</td>
        <td colSpan={2}>
          <Shown text={problem} />
        </td>
        <td>{time(created_at)}</td>
      </tr>
    );
  return (
    <tr>
      {name}
      <td class="number">{aligned(mean_reward)}</td>
      <td>{outcomes(counts, completed === null ? null : requested)}</td>
      <td>
        {kind}, {is_closed ? 'closed' : 'running'}
        {steps !== null && `, ${plural(steps, 'step')} closed`}
        {forked_from !== null && (
          <>
            , <Forked from={forked_from} />
          </>
        )}
      </td>
      <td>{time(created_at)}</td>
    </tr>
  );
}
