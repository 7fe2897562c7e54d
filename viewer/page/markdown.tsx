import type { Token, Tokens } from 'marked';
import { lexer } from 'marked';
import type { ComponentChildren, JSX } from 'preact';
import { Raw, Shown } from './text.js';

/** Longer texts, and longer lines, are shown as they are: a parser would take seconds for some of them. */
const MAX_CHARACTERS = 100_000;
const MAX_LINE = 10_000;

/** Text as Markdown. HTML in it is text, pictures are named and never loaded, and links show where they lead. */
export function Markdown({ text }: { text: string }): JSX.Element {
  const tokens = parsed(text);
  return tokens === null ? <Raw text={text} /> : <div class="markdown">{blocks(tokens)}</div>;
}

function parsed(text: string): Token[] | null {
  if (text.length > MAX_CHARACTERS) return null;
  if (text.split('\n').some((line) => line.length > MAX_LINE)) return null;
  try {
    // A line is a line: boards and logs are texts of messages, too.
    return lexer(text, { gfm: true, breaks: true });
  } catch {
    // Thousands of nested quotes end its stack.
    return null;
  }
}

const blocks = (tokens: readonly Token[] | undefined): ComponentChildren =>
  tokens?.map((token, index) => <Block key={index} token={token} />);

const inline = (tokens: readonly Token[] | undefined): ComponentChildren =>
  tokens?.map((token, index) => <Inline key={index} token={token} />);

function Block({ token }: { token: Token }): JSX.Element | null {
  switch (token.type) {
    case 'space':
    case 'def':
      return null;
    case 'heading':
      // The page's own headings are an outline; those of a text are not part of it.
      return <p class={`h h${(token as Tokens.Heading).depth}`}>{inline(token.tokens)}</p>;
    case 'paragraph':
      return <p dir="auto">{inline(token.tokens)}</p>;
    case 'code':
      return <Code {...(token as Tokens.Code)} />;
    case 'blockquote':
      return <blockquote>{blocks(token.tokens)}</blockquote>;
    case 'hr':
      return <hr />;
    case 'list':
      return <List list={token as Tokens.List} />;
    case 'table':
      return <Table table={token as Tokens.Table} />;
    case 'text':
      return token.tokens === undefined ? (
        <Shown text={(token as Tokens.Text).text} />
      ) : (
        <>{inline(token.tokens)}</>
      );
    default:
      return <Raw text={token.raw} />;
  }
}

function Code({ text, lang }: Tokens.Code): JSX.Element {
  return (
    <div class="code">
      {lang !== undefined && lang !== '' && (
        <span class="lang">
          <Shown text={lang} />
        </span>
      )}
      <pre tabIndex={0}>
        <code>
          <Shown text={text} />
        </code>
      </pre>
    </div>
  );
}

function List({ list }: { list: Tokens.List }): JSX.Element {
  const items = list.items.map((item, index) => (
    <li key={index}>
      {item.task && (item.checked ? '☑ ' : '☐ ')}
      {blocks(item.tokens.filter(({ type }) => type !== 'checkbox'))}
    </li>
  ));
  return list.ordered ? <ol start={Number(list.start)}>{items}</ol> : <ul>{items}</ul>;
}

function Table({ table }: { table: Tokens.Table }): JSX.Element {
  const sideOf = (column: number): string => table.align[column] ?? 'left';
  return (
    <div class="wide" tabIndex={0} role="group" aria-label="table">
      <table>
        <thead>
          <tr>
            {table.header.map((cell, index) => (
              <th key={index} style={{ textAlign: sideOf(index) }}>
                {inline(cell.tokens)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {table.rows.map((row, index) => (
            <tr key={index}>
              {row.map((cell, column) => (
                <td key={column} style={{ textAlign: sideOf(column) }}>
                  {inline(cell.tokens)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Inline({ token }: { token: Token }): JSX.Element {
  switch (token.type) {
    case 'strong':
      return <strong>{inline(token.tokens)}</strong>;
    case 'em':
      return <em>{inline(token.tokens)}</em>;
    case 'del':
      return <del>{inline(token.tokens)}</del>;
    case 'codespan':
      return (
        <code>
          <Shown text={(token as Tokens.Codespan).text} />
        </code>
      );
    case 'br':
      return <br />;
    case 'link':
      return <Link link={token as Tokens.Link} />;
    case 'image':
      return (
        <span class="target">
          [picture “<Shown text={(token as Tokens.Image).text} />
          ”, not loaded: <Shown text={(token as Tokens.Image).href} />]
        </span>
      );
    case 'escape':
      return <Shown text={(token as Tokens.Escape).text} />;
    case 'text':
      return token.tokens === undefined ? (
        <Shown text={(token as Tokens.Text).text} />
      ) : (
        <>{inline(token.tokens)}</>
      );
    default:
      return <Shown text={token.raw} />;
  }
}

/** Only the web's own addresses are followed, and they learn nothing of this page. */
function Link({ link }: { link: Tokens.Link }): JSX.Element {
  const { href, text } = link;
  const isWeb = /^https?:\/\//i.test(href);
  const label = isWeb ? (
    <a href={href} rel="noreferrer noopener nofollow" target="_blank">
      {inline(link.tokens)}
    </a>
  ) : (
    <>{inline(link.tokens)}</>
  );
  return (
    <>
      {label}
      {text !== href && (
        <span class="target">
          {' '}
          (<Shown text={href} />)
        </span>
      )}
    </>
  );
}
