import { LETTERS } from '../multichoice.js';
import { isDeniedBehind, isNegated } from './denials.js';

/** Reads one letter at a place of a text, with what decorates it. Everything looks at a bounded part of the text. */

/** A letter in upper case; `several`: one of more than one, such as `A or B`; null: none. */
export type Read = { letter: string; at: number } | 'several' | null;

const AHEAD = 48;
/** How much may decorate a letter, on each side. */
const MOST_DECORATION = 48;
/** Between "answer" and its letter: `answer seems to be`. */
const MOST_WORDS = 7;

const DECORATION = new Set(' \t\n\r*_`~$()[]{}<>:=|"\'“”‘’«»「」【】《》\u200b→➡✅-–—'.split(''));
/** LaTeX that decorates; other commands are formulas. */
const COMMANDS =
  /\\(?:boxed|fbox|framebox|text|textbf|textit|textrm|textsf|mathrm|mathbf|mathsf|mathit|mathbb|bf|rm|large|Large|displaystyle|quad|qquad|left|right|[()[\]{} ,;:!])/y;

/** Words between "answer", "choose" and so on and their letter, and before "is B". */
const BRIDGE = new Set(
  `is are was be being been to seems should must would will could can has have the this that its it s of final correct
  right best most likely probably therefore thus then clearly definitely indeed option choice letter alternative i we
  my think believe would appears now so here question given only single simply just actually
  ist lautet wäre die der das richtige antwort es la el lo una opción correcta respuesta est réponse correcte è
  risposta corretta lettera opzione é resposta correta opção alternativa letra adalah ialah opsi pilihan yang benar ni sahihi jawabu
  是 為 为 应该是 應該是 应为 選 选 选项 選項 正确 正確 最终 は が 選択肢 正解は 은 는 이 가 번 보기
  هي هو الصحيحة النهائية الخيار है विकल्प सही হল হলো সঠিক`.split(/\s+/),
);

/** What follows a letter that is no article. */
const CONNECTORS = new Set(
  `because since as for due based given while when although though but with by from where which so therefore if is
  was would in on and or not weil denn porque car parce perché karena`.split(/\s+/),
);

/** A word of one kind of script: Chinese and Japanese put no spaces around `B`. */
const WORD =
  /\p{Script=Latin}[\p{Script=Latin}\p{M}]{0,23}|(?:(?!\p{Script=Latin})[\p{L}\p{M}]){1,24}/uy;
const OWN = new Map<string, string>(LETTERS);
/** After it, a letter is part of something else: a word, a formula, a name. */
const IN_A_WORD =
  /^(?:[\p{Script=Latin}\p{M}\p{N}#(^]|[-‐'’_]+[\p{L}\p{N}]|\+\+|\s*[=≈+×]|\s+[<>*/^]\s)/u;
/** Names that begin with a letter. */
const EPITHETS =
  '(?:coli|elegans|subtilis|difficile|albicans|botulinum|tetani|perfringens|thaliana|falciparum|burgdorferi|anthracis|pertussis|cereus|fragilis|baumannii|faecalis|faecium|jejuni|trachomatis|diphtheriae|neoformans|histolytica|rerio|fumigatus|niger|aegypti|gambiae|mellifera)(?!\\p{L})';
const NAME = new RegExp(
  `^(?:\\.[ \\t]?(?:[A-Z]\\.(?![ \\t]${EPITHETS})|${EPITHETS})|[ \\t](?:cells?|lymphocytes?|major|minor|flat|sharp|chromosomes?|axis|vitamins?|battery|programming|language)(?!\\p{L}))`,
  'u',
);
export const JOINED =
  ',|\\/|&|;|、|或者?|和|与|及|到|至|または|から|と|や|또는|과|와|–|—|~|(?<![\\p{L}])(?:or|and|to|through|und|oder|bis|et|ou|à|y|o|e|hasta|atau|dan)(?![\\p{L}])|و|أو';
/** `A to D`: the first one is no article. */
const TO_NEXT = new RegExp(`^[ \\t]+(?:${JOINED})[ \\t]+[A-Z](?!\\p{L})`, 'u');
const NEXT_OF_SEVERAL = new RegExp(
  `^[*_\`~$)\\]}"'”’\\s]{0,8}(?:${JOINED})\\s{0,3}(?:or\\s|and\\s)?[*_\`~$([{"'“‘\\s]{0,6}(?:\\\\boxed\\{|\\\\text\\{){0,2}[(]?[A-Za-z](?![\\p{L}\\p{N}'’])[*_\`~$)\\]}"'”’]{0,6}\\s{0,3}(?:$|[\\n.;!?,/。]|${JOINED}|(?<=[ \\t])[A-Z](?!\\p{L}))|^[ \\t]+[A-Z](?:[ \\t]+[A-Z](?!\\p{L})|[ \\t]*(?:$|[\\n.;!?,]))`,
  'u',
);

/** The place behind what decorates a letter. */
export function skipDecoration(text: string, from: number): number {
  let at = from;
  const most = from + MOST_DECORATION;
  while (at < text.length && at < most) {
    COMMANDS.lastIndex = at;
    if (DECORATION.has(text[at] ?? '')) at += 1;
    else if (COMMANDS.test(text)) at = COMMANDS.lastIndex;
    else break;
  }
  return at;
}

/** The letter behind a word that announces one, with `words` such as "is" between them. */
export function letterAfter(
  text: string,
  { from, words = MOST_WORDS }: { from: number; words?: number },
): Read {
  let at = from;
  for (let left = words; ; left--) {
    at = skipDecoration(text, at);
    const read = letterAt(text, at);
    if (read !== null) return read;
    WORD.lastIndex = at;
    const word = WORD.exec(text)?.[0] ?? '';
    const isBridge = BRIDGE.has(word.toLowerCase()) || (word.length === 1 && isArticle(text, at));
    if (!isBridge || left === 0) return null;
    at += word.length;
  }
}

export function letterAt(text: string, at: number): Read {
  const letter = upperCase(text[at] ?? '');
  if (letter === null) return null;
  const ahead = text.slice(at + 1, at + 1 + AHEAD);
  if (IN_A_WORD.test(ahead) || NAME.test(ahead) || isArticle(text, at)) return null;
  // Arabic and Bengali have no upper case, and their words continue in their own script.
  if (OWN.has(text[at] ?? '') && /^\p{L}/u.test(ahead)) return null;
  if (isNegated(text, at) || isDeniedBehind(ahead)) return null;
  return NEXT_OF_SEVERAL.test(ahead) ? 'several' : { letter, at };
}

/** `A dog`, `I think`, and the short words of other languages. */
function isArticle(text: string, at: number): boolean {
  const letter = text[at] ?? '';
  if (!/^(?:[a-z]|[AI])$/.test(letter) || TO_NEXT.test(text.slice(at + 1, at + 1 + AHEAD)))
    return false;
  const next = /^[ \t]+(\p{L}[\p{L}'’]{0,23})/u.exec(text.slice(at + 1, at + 1 + AHEAD))?.[1];
  if (next === undefined || CONNECTORS.has(next.toLowerCase())) return false;
  return letter !== 'A' || next === next.toLowerCase();
}

function upperCase(character: string): string | null {
  if (/^[A-Za-z]$/.test(character)) return character.toUpperCase();
  return OWN.get(character) ?? null;
}
