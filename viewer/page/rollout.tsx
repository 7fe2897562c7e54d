import type { JSX } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import type { RolloutDocument } from '../documents.js';
import { hrefOf } from './address.js';
import type { Colouring } from './cells.js';
import { COLOURINGS } from './cells.js';
import { Command } from './commands.js';
import { go, goQuietly, note, useKeys, useLoaded } from './hooks.js';
import { depthsOf } from './lanes.js';
import { Ended } from './list.js';
import { Loading } from './loading.js';
import { MessageView } from './message.js';
import { Neighbours } from './neighbours.js';
import { Fields } from './overview.js';
import type { RolloutPlace, Source } from './source.js';
import { rolloutIdOf } from './source.js';
import { isColouring } from './strip.js';
import { Raw, Shown } from './text.js';
import { Timing } from './timing.js';
import { ObservationView, Turn } from './turn.js';
import { decimal, seconds, whole } from './words.js';

export function RolloutView({
  source,
  place,
  options,
}: {
  source: Source;
  place: RolloutPlace;
  options: Record<string, string>;
}): JSX.Element {
  const id = rolloutIdOf(place);
  const file = source.fileOf(place);
  const loaded = useLoaded(id, () => source.rollout(place));
  return (
    <>
      <h1>
        Rollout {`${place.row}-${place.repeat}`}{' '}
        <span class="quiet">
          of <Shown text={place.run} />
        </span>
      </h1>
      <Neighbours {...{ source, place, options }} />
      {file === null ? (
        <Loading of={loaded} what="the rollout">
          {(rollout) => <Followed {...{ source, place, rollout, options }} />}
        </Loading>
      ) : (
        <p>
          It is in another file of this report:{' '}
          <a href={`${encodeURI(file)}${hrefOf({ ...place, options })}`}>{file}</a>
        </p>
      )}
    </>
  );
}

/** A running one changes while it is looked at. */
function Followed({
  source,
  place,
  rollout,
  options,
}: {
  source: Source;
  place: RolloutPlace;
  rollout: RolloutDocument;
  options: Record<string, string>;
}): JSX.Element {
  const [latest, set] = useState(rollout);
  useEffect(() => {
    if (rollout.entry.ended !== null) return;
    return source.followRollout(place, set);
  }, [rollout]);
  return <Rollout {...{ place, rollout: latest, options }} />;
}

function Rollout({
  place,
  rollout,
  options,
}: {
  place: RolloutPlace;
  rollout: RolloutDocument;
  options: Record<string, string>;
}): JSX.Element {
  const isRaw = options['raw'] === '1';
  const colouring = isColouring(options['colour']) ? options['colour'] : 'logprob';
  const [at, setAt] = useState<At>({
    turn: numberOf(options['turn']),
    token: numberOf(options['token']),
  });
  const look = (to: At): void => {
    setAt(to);
    note({ ...place, options: { ...options, ...named(to) } });
  };
  const turnTo = (step: number): void => {
    const numbers = rollout.calls.map(({ number }) => number);
    const index = at.turn === null ? -1 : numbers.indexOf(at.turn);
    const next = numbers[Math.max(0, Math.min(numbers.length - 1, index + step))];
    if (next === undefined) return;
    look({ turn: next, token: null });
    show(next);
  };
  const toggleRaw = (): void => {
    goQuietly({ ...place, options: { ...options, ...named(at), raw: isRaw ? '' : '1' } });
  };
  useKeys({
    j: () => {
      turnTo(1);
    },
    k: () => {
      turnTo(-1);
    },
    r: toggleRaw,
    g: () => {
      go({ run: place.run, row: place.row });
    },
  });
  useEffect(() => {
    if (at.turn !== null) show(at.turn);
  }, []);
  return (
    <>
      <Summary rollout={rollout} />
      <div class="switches" role="group" aria-label="how it is shown">
        <button type="button" aria-pressed={isRaw} onClick={toggleRaw}>
          Raw text <kbd>r</kbd>
        </button>
        <Colours
          colouring={colouring}
          onChange={(colour) => {
            goQuietly({ ...place, options: { ...options, ...named(at), colour } });
          }}
        />
      </div>
      <Timing rollout={rollout} />
      <Commands rollout={rollout} at={at} />
      <Conversation {...{ rollout, isRaw, colouring, at, look }} />
    </>
  );
}

/** What is looked at. */
interface At {
  turn: number | null;
  token: number | null;
}

const named = ({ turn, token }: At): Record<string, string> => ({
  turn: turn === null ? '' : String(turn),
  token: token === null ? '' : String(token),
});

const numberOf = (text: string | undefined): number | null =>
  text === undefined || !/^\d+$/.test(text) ? null : Number(text);

function show(turn: number): void {
  const section = document.getElementById(`turn-${turn}`);
  section?.scrollIntoView({ block: 'start' });
  section?.focus({ preventScroll: true });
}

function Summary({ rollout }: { rollout: RolloutDocument }): JSX.Element {
  const { entry, facts, model, scores, forked_from, settings } = rollout;
  const figures: [string, JSX.Element | string][] = [
    ['ended', <Ended {...entry} />],
    [
      'reward',
      decimal(entry.reward ?? entry.reward_so_far) + (entry.reward === null ? ' so far' : ''),
    ],
    ['turns', whole(entry.turns)],
    ['tokens', whole(entry.tokens)],
    ['wall', seconds(entry.wall_s)],
    ['mean logprob', decimal(facts.mean_logprob)],
    ['replicas', <Shown text={facts.replicas.join(', ')} />],
    ['versions', <Shown text={facts.versions.map((one) => one ?? 'none').join(', ')} />],
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
          Forked from <Shown text={forked_from.rollout_id} /> at <Shown text={forked_from.at} />
        </p>
      )}
      <Fields title="Parts of the reward" fields={facts.rewards} />
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

function Colours({
  colouring,
  onChange,
}: {
  colouring: Colouring;
  onChange: (colouring: string) => void;
}): JSX.Element {
  return (
    <label>
      Colour of tokens{' '}
      <select
        value={colouring}
        onChange={(event) => {
          onChange(event.currentTarget.value);
        }}
      >
        {COLOURINGS.map((name) => (
          <option key={name}>{name}</option>
        ))}
      </select>
    </label>
  );
}

function Commands({ rollout, at }: { rollout: RolloutDocument; at: At }): JSX.Element {
  const { id, batch_id, calls } = rollout;
  // A program plays on from a call, not from the middle of one.
  const isProgram = calls.some(({ life }) => life !== null);
  const place =
    at.token === null || isProgram ? `turn:${at.turn ?? 0}` : `token:${sampledBefore(rollout, at)}`;
  return (
    <details class="commands">
      <summary>Fork, rerun, compare</summary>
      <Command
        what={place.startsWith('turn') ? 'fork at this turn' : 'fork before this token'}
        words={['temporal-rollout', 'fork', id, '--at', place]}
      />
      <Command
        what="run its batch again"
        words={['temporal-rollout', 'start', '--like', batch_id, '--id', `${batch_id}-again`]}
      />
      <Command
        what="where both part"
        words={['temporal-rollout', 'diff', batch_id, `${batch_id}-again`]}
      />
    </details>
  );
}

/** Sampled tokens of the rollout before one of a turn. */
function sampledBefore({ calls }: RolloutDocument, { turn, token }: At): number {
  const before = calls.filter(({ number }) => number < (turn ?? 0));
  return before.reduce((sum, { answer }) => sum + answer.tokens.ids.length, token ?? 0);
}

function Conversation({
  rollout,
  isRaw,
  colouring,
  at,
  look,
}: {
  rollout: RolloutDocument;
  isRaw: boolean;
  colouring: Colouring;
  at: At;
  look: (to: At) => void;
}): JSX.Element {
  const depths = useMemo(() => depthsOf(rollout.calls), [rollout]);
  // The same elements while only the token that is looked at changes, which a turn keeps itself.
  return useMemo(
    () => (
      <>
        <section aria-label="prompt" class="turn">
          <h2>Prompt</h2>
          {rollout.prompt.map((message, index) => (
            <MessageView key={index} message={message} isRaw={isRaw} />
          ))}
        </section>
        {rollout.calls.map((call, index) => (
          <Turn
            key={call.number}
            {...{ call, isRaw, colouring, depth: depths[index] ?? 0 }}
            token={at.turn === call.number ? at.token : null}
            onToken={(token) => {
              look({ turn: call.number, token });
            }}
          />
        ))}
        {rollout.verdict !== null && (
          <section class="turn" aria-label="verdict">
            <h2>Verdict</h2>
            <ObservationView observation={rollout.verdict} isRaw={isRaw} title="verdict" />
          </section>
        )}
        <Ending rollout={rollout} />
      </>
    ),
    [rollout, isRaw, colouring],
  );
}

/** Of programs: their lives, what was refused, what an agent answered. */
function Ending({ rollout }: { rollout: RolloutDocument }): JSX.Element {
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
