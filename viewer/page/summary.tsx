import type { JSX } from 'preact';
import type { RolloutDocument } from '../documents.js';
import { Fields } from './fields.js';
import { Forked } from './forked.js';
import { Ended } from './list.js';
import { Shown } from './text.js';
import { decimal, seconds, whole } from './words.js';

/** Parts of a reward that are seen at once. */
const FEW = 12;

/** How a rollout came out. */
export function Summary({ rollout }: { rollout: RolloutDocument }): JSX.Element {
  const { entry, facts, model, scores, forked_from, settings } = rollout;
  const figures: [string, JSX.Element | string][] = [
    ['ended', <Ended {...entry} />],
    [
      'reward',
      entry.reward === null && entry.ended === null
        ? `${decimal(entry.reward_so_far)} so far`
        : decimal(entry.reward),
    ],
    ['turns', whole(entry.turns)],
    ['tokens', whole(entry.tokens)],
    ['wall time', seconds(entry.wall_s)],
    ['mean logprob', decimal(facts.mean_logprob)],
    ['replicas', <Shown text={facts.replicas.join(', ') || '–'} />],
    ['versions', <Shown text={facts.versions.map((one) => one ?? '–').join(', ') || '–'} />],
    ['model', <Shown text={model ?? '–'} />],
    ['task', <Shown text={entry.task_name ?? '–'} />],
  ];
  return (
    <section aria-label="summary">
      <dl class="glance">
        {figures.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      {entry.failure !== null && (
        <p class="alert">
          ✕ {entry.failure.type} in turn {entry.failure.turn}:{' '}
          <Shown text={entry.failure.message} />
        </p>
      )}
      {forked_from !== null && (
        <p>
          It is <Forked from={forked_from} />
        </p>
      )}
      <Fields
        title="Parts of the reward"
        fields={facts.rewards}
        isOpen={Object.keys(facts.rewards).length <= FEW}
      />
      <Scores scores={scores} />
      <Fields title="Settings" fields={settings} />
    </section>
  );
}

function Scores({ scores }: { scores: RolloutDocument['scores'] }): JSX.Element | null {
  const entries = Object.entries(scores);
  if (entries.length === 0) return null;
  return (
    <div class="wide" tabIndex={0} role="group" aria-label="scores">
      <table class="list">
        <caption>Scores</caption>
        <thead>
          <tr>
            {['Scorer', 'Reward', 'Parts', 'Note'].map((name) => (
              <th key={name} scope="col">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {entries.map(([scorer, { reward = null, rewards = {}, note = '' }]) => (
            <tr key={scorer}>
              <th scope="row">
                <Shown text={scorer} />
              </th>
              <td class="number">{decimal(reward)}</td>
              <td>
                {Object.entries(rewards).map(([name, value]) => (
                  <span key={name} class="part">
                    <Shown text={name} /> {decimal(value)}
                  </span>
                ))}
              </td>
              <td>
                <Shown text={note} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
