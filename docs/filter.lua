-- What the pages look like in both builders: numbered equations, formulas and tables in boxes of their own to scroll in,
-- letters in columns. What Quarto adds to Pandoc's Markdown by itself, callouts, folded code, numbered figures and tables, is
-- below, for where there is no Quarto.

-- Thin spaces around named operators such as log: TeX sets them, browsers' MathML does not.
local function spaced(text)
  local function around(pattern)
    local from, to = text:find(pattern)
    while from do
      local before, after = text:sub(1, from - 1), text:sub(to + 1)
      local lead = before:match("[%w})%]]%s*$") and not before:match("\\%a+%s*$") and "\\," or ""
      local tail = after:match("^%s*[%w|\\]") and not after:match("^%s*\\left") and not after:match("^%s*\\%A") and "\\, " or ""
      local name = text:sub(from, to)
      text = before .. lead .. name .. tail .. after
      from, to = text:find(pattern, #before + #lead + #name + 1)
    end
  end
  for _, name in ipairs({ "log", "exp", "det", "max", "min" }) do around("\\" .. name .. "%f[%A]") end
  around("\\operatorname%b{}")
  return text
end

local function boxed_math(math)
  math.text = spaced(math.text)
  if math.mathtype == "DisplayMath" then
    return pandoc.Span({ math }, { class = "display-math" })
  elseif #math.text > 32 then
    return pandoc.Span({ math }, { class = "long-math" })
  end
  return math
end

-- $$ ... $$ {#eq-name=5.3} is, to Pandoc, a formula, a space and a word; the number is from `docs.notebook`.
local function equations(inlines)
  local out = pandoc.Inlines({})
  local i = 1
  while i <= #inlines do
    local this, space, word = inlines[i], inlines[i + 1], inlines[i + 2]
    local id, number
    if this.t == "Math" and word and word.t == "Str" then id, number = word.text:match("^{#(eq%-[%w-]+)=(%w[%w.]*)}$") end
    if id then
      out:insert(pandoc.Span({ boxed_math(this), pandoc.Span("(" .. number .. ")", { class = "eq-number" }) }, { id = id, class = "equation" }))
      i = i + 3
    elseif this.t == "Math" and space and space.t == "Str" and space.text:match("^[%p’”]") then
      -- no line break between a formula and the comma after it
      out:insert(pandoc.Span({ boxed_math(this), space }, { class = "tied" }))
      i = i + 2
    else
      out:insert(this.t == "Math" and boxed_math(this) or this)
      i = i + 1
    end
  end
  return out
end

-- The letters that a page defines for itself stand in columns.
local function letters(blocks)
  for i = 2, #blocks do
    local before = blocks[i - 1]
    if blocks[i].t == "BulletList" and before.t == "Para" and before.content[1].t == "Strong"
        and pandoc.utils.stringify(before.content[1]):match("^Letters of this ") then
      blocks[i] = pandoc.Div({ blocks[i] }, { class = "letters" })
    end
  end
  return blocks
end

-- Columns as wide as what is in them, not as the dashes in the source.
local function scroll_box(table)
  table.colspecs = table.colspecs:map(function(spec) return { spec[1], nil } end)
  return pandoc.Div({ table }, { class = "table-box", tabindex = "0" })
end

if quarto then return { { Inlines = equations, Blocks = letters }, { Table = scroll_box } } end

local words, count, label = { fig = "Figure", tbl = "Table" }, { fig = 0, tbl = 0 }, {}

local function captioned(block)
  local kind = block.identifier:match("^(%a+)%-")
  if words[kind] then
    count[kind] = count[kind] + 1
    label[block.identifier] = { words[kind] .. "\u{a0}" .. count[kind], tostring(count[kind]) }
    local lead = pandoc.Inlines({ pandoc.Strong(label[block.identifier][1] .. ":"), pandoc.Space() })
    local first = block.caption.long[1]
    if first then first.content = lead .. first.content else block.caption.long = { pandoc.Plain(lead) } end
  end
  return block
end

local function callout(div)
  local kind = div.classes:find_if(function(c) return c:match("^callout%-%a+") end)
  if not kind then return nil end
  local title = pandoc.Inlines(div.attributes.title or kind:sub(9, 9):upper() .. kind:sub(10))
  local body = div.content
  if body[1] and body[1].t == "Header" then title = body:remove(1).content end
  body:insert(1, pandoc.Div(pandoc.Plain(title), { class = "callout-title" }))
  return pandoc.Div(body, { id = div.identifier, class = "callout " .. kind, role = "note" })
end

-- Code that the reader unfolds, marked as Quarto marks it: a line says what it does.
local function folded(code)
  if code.attributes["code-fold"] ~= "true" then return nil end
  local said = pandoc.utils.blocks_to_inlines(pandoc.read(code.attributes["code-summary"], "markdown").blocks)
  code.attributes = {}
  local open = pandoc.RawBlock("html", '<details class="folded"><summary>')
  return { open, pandoc.Plain(said), pandoc.RawBlock("html", "</summary>"), code, pandoc.RawBlock("html", "</details>") }
end

local function reference(cite)
  local id = cite.citations[1].id
  if not label[id] then error("reference to @" .. id .. ", which this page does not define") end
  return pandoc.Link(label[id][cite.citations[1].mode == "SuppressAuthor" and 2 or 1], "#" .. id)
end

local function linked(header)
  if header.level > 1 and header.level < 5 and header.identifier ~= "" then
    header.content:insert(pandoc.Link({}, "#" .. header.identifier, "", { class = "anchor", ["aria-label"] = "Link to this section" }))
  end
  return header
end

return {
  { Inlines = equations, Blocks = letters, Div = callout, CodeBlock = folded },
  { Figure = captioned, Table = captioned },
  { Cite = reference, Table = scroll_box, Header = linked },
}
