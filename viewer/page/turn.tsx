import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import type { Answer, CallPart, Message, Observation } from '../documents.js';
import type { Colouring } from './cells.js';
import { segmentsOf, seamsOf } from './cells.js';
import { MessageView, Thoughts, ToolCalls, Words } from './message.js';
import { Sampled, SeamMark } from './sampled.js';
import { StripLegend, TokenStrip } from './strip.js';
import { Shown } from './text.js';
import { decimal, plural, seconds, whole } from './words.js';

export interface TurnProps {
  call: CallPart;
  /** Of a tree: how far it is indented. */
  depth: number;
  isRaw: boolean;
  colouring: Colouring;
  /** Of all turns, where they are coloured by name. */
  names: readonly string[];
  /** A token that the address names. */
  token: number | null;
  onToken: (token: number) => void;
  /** The address of the turn. */
  link: string;
  /** The turn is what is looked at, as for a fork. */
  onTurn: () => void;
}

/** A call: what was asked, what was sampled, and what the environment answered. */
export function Turn(props: TurnProps): JSX.Element {
  const { call, depth, isRaw, colouring, names, onToken } = props;
  const { number, news, answer, observation } = call;
  const [token, setToken] = useState(props.token);
  const { tokens } = answer;
  return (
    <section
      class={`turn depth-${Math.min(depth, 6)}`}
      id={`turn-${number}`}
      tabIndex={-1}
      aria-labelledby={`turn-${number}-title`}
    >
      <h2 id={`turn-${number}-title`}>
        <a
          href={props.link}
          onClick={(event) => {
            if (event.ctrlKey || event.metaKey || event.shiftKey) return;
            event.preventDefault();
            setToken(null);
            props.onTurn();
          }}
        >
          {call.life === null ? 'Turn' : 'Call'} {number}
        </a>
      </h2>
      <CallFacts call={call} />
      {news.map((message, index) => (
        <MessageView key={index} message={message} isRaw={isRaw} />
      ))}
      <article class="message assistant">
        <h3>
          answer <AnswerFacts answer={answer} />
        </h3>
        {answer.reasoning !== null && <Thoughts text={answer.reasoning} isRaw={isRaw} />}
        {isRaw && tokens.pieces.length > 0 ? (
          <Sampled tokens={tokens} token={token} />
        ) : (
          <AnswerText answer={answer} isRaw={isRaw} />
        )}
        <ToolCalls calls={answer.tool_calls} />
        {tokens.ids.length > 0 && (
          <>
            <TokenStrip
              tokens={tokens}
              colouring={colouring}
              names={names}
              at={token}
              onAt={(at) => {
                setToken(at);
                onToken(at);
              }}
            />
            <StripLegend {...{ tokens, colouring, names }} />
          </>
        )}
      </article>
      {observation !== null && <ObservationView observation={observation} />}
    </section>
  );
}

function AnswerText({ answer, isRaw }: { answer: Answer; isRaw: boolean }): JSX.Element {
  if (answer.text === '' && answer.tool_calls.length === 0 && answer.is_whole)
    return <p class="flag">∅ an empty answer</p>;
  return (
    <>
      {segmentsOf(answer).map(({ text, seam }, index) => (
        <div key={index}>
          {seam !== null && <SeamMark seam={seam} />}
          {text !== '' && <Words text={text} isRaw={isRaw} />}
        </div>
      ))}
    </>
  );
}

function CallFacts({ call }: { call: CallPart }): JSX.Element {
  const { life, parent, cause, fork, prompt_tokens, queue_s, generate_s, observation } = call;
  const facts = [
    life !== null && (parent === null ? 'begins anew' : `continues call ${parent}`),
    life !== null && fork !== null && `begins with ${whole(fork.ids)} ids of call ${fork.call}`,
    cause !== null && `because: ${cause}`,
    life !== null && life > 1 && `life ${life}`,
    `prompt ${plural(prompt_tokens, 'token')}`,
    queue_s !== null && `queued ${seconds(queue_s)}`,
    generate_s !== null && `generated ${seconds(generate_s)}`,
    observation !== null && `stepped ${seconds(observation.step_s)}`,
  ].filter((fact) => fact !== false);
  return (
    <p class="facts">
      {facts.map((fact) => (
        <span key={fact} class="part">
          <Shown text={fact} />
        </span>
      ))}
    </p>
  );
}

function AnswerFacts({ answer }: { answer: Answer }): JSX.Element {
  const {
    tokens,
    finish_reason,
    stop_reason,
    is_whole,
    restarted,
    inherited,
    untrained,
    malformed,
  } = answer;
  const seams = seamsOf(answer).length;
  const flags = [
    !is_whole && '… not whole',
    restarted && '↺ sampled again from its beginning',
    inherited > 0 && `${plural(inherited, 'token')} of an earlier attempt`,
    seams > 0 && `‖ ${plural(seams, 'seam')}`,
    malformed > 0 && `✕ ${plural(malformed, 'malformed tool call')}`,
    untrained !== null && `not trained on: ${untrained}`,
  ].filter((flag) => flag !== false);
  return (
    <>
      <span class="quiet">
        {plural(tokens.ids.length, 'token')}
        {finish_reason !== null && (
          <>
            , finished by <Shown text={finish_reason} />
          </>
        )}
        {stop_reason !== null && (
          <>
            {' '}
            (<Shown text={String(stop_reason)} />)
          </>
        )}
      </span>
      {flags.map((flag) => (
        <span key={flag} class="flag">
          <Shown text={flag} />
        </span>
      ))}
    </>
  );
}

/** As where an episode ends without a word: nothing to draw. */
const isEmpty = ({ parts, reasoning, tool_calls = [] }: Message): boolean =>
  reasoning === undefined &&
  tool_calls.length === 0 &&
  parts.every((part) => part.kind === 'text' && part.text === '');

export function ObservationView({
  observation,
  title = 'environment',
}: {
  observation: Observation;
  title?: string;
}): JSX.Element {
  const { message, reward, rewards, terminated, truncated, answer } = observation;
  const parts = Object.entries(rewards);
  return (
    <div class="observation">
      <p class="reward">
        <strong>
          {title}: reward {decimal(reward)}
        </strong>{' '}
        {parts.map(([name, value]) => (
          <span key={name} class="part">
            <Shown text={name} /> {decimal(value)}
          </span>
        ))}
        {answer !== null && (
          <span class="part">
            took as the answer:{' '}
            <code>{answer === '' ? '∅' : <Shown text={answer.slice(0, 500)} />}</code>
          </span>
        )}
        {terminated && <span class="flag">■ terminated</span>}
        {truncated && <span class="flag">✂ truncated</span>}
      </p>
      {/* What an environment says is as it is: boards and logs stand in columns. */}
      {message !== null && !isEmpty(message) && <MessageView message={message} isRaw />}
    </div>
  );
}
