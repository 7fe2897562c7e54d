import type { AsSet, GenerationRequest, Limit } from '../generation-service.js';
import type { Settings } from './questions.js';

type Asked = AsSet & Pick<GenerationRequest, 'temperature' | 'logprobs'>;

/** Whether tokens are sampled from fewer than all. */
export const isFiltered = ({
  temperature,
  top_p,
  top_k,
  min_p,
}: Pick<Asked, 'temperature' | 'top_p' | 'top_k' | 'min_p'>): boolean =>
  temperature > 0 && (top_p < 1 || top_k > 0 || min_p > 0);

/** What SGLang 0.5.23 does not do, or does in another way than the field says. */
export function limitsOf(asked: Asked, settings: Settings): Limit[] {
  const { structured_outputs: structure, top_k } = asked;
  const most = settings.sampling_mask_max_tokens;
  const filtered = asked.logprobs && isFiltered(asked);
  const limits: [field: string, isMet: boolean, what: string][] = [
    ['bad_words', asked.bad_words.length > 0, 'SGLang has no such parameter'],
    [
      'repetition_penalty',
      asked.repetition_penalty > 2,
      `expected at most 2 with SGLang, got ${asked.repetition_penalty}`,
    ],
    [
      'stop_token_ids',
      asked.ignore_eos && asked.stop_token_ids.length > 0,
      'with ignore_eos SGLang does not stop at them',
    ],
    [
      'top_k',
      filtered && !(top_k > 0 && top_k <= most),
      `expected 1 to ${most} (--sampling-mask-max-tokens) beside top_p, top_k or min_p, got ${top_k}: only then SGLang has logprobs of the distribution behind these filters`,
    ],
    [
      'top_logprobs',
      filtered && asked.top_logprobs > 0,
      'with top_p, top_k or min_p SGLang has them only of the distribution before these filters',
    ],
    [
      'structured_outputs',
      structure !== null && (settings.grammar_backend ?? 'none') === 'none',
      'this SGLang has no grammar backend: start it with --grammar-backend xgrammar',
    ],
    ...OWN_TERMS.map((name): [string, boolean, string] => [
      `structured_outputs.${name}`,
      structure?.[name] !== undefined,
      'SGLang has no such parameter; write it as regex or json',
    ]),
  ];
  return limits.flatMap(([field, isMet, what]) => (isMet ? [{ field, what }] : []));
}

/** vLLM's alone. */
const OWN_TERMS = [
  'choice',
  'disable_any_whitespace',
  'disable_additional_properties',
  'whitespace_pattern',
] as const;
