"""Words by which users set rules and revise them, in twenty languages; data for `rules_and_requests` and `revisions`.

The words are regular expressions. English and Chinese rules are recognized in `rules_and_requests`.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Cues:
    """The cue words of one language; an empty text stands for none."""

    duty: str = ""
    """Words of a duty or a ban, such as `must` and `never`."""
    limit: str = ""
    """Words of a limit, a preference or an order that holds for every case, such as `only` and `at most`."""
    wish: str = ""
    """Words of a wish or a polite request, such as `please`."""
    revoking: str = ""
    """Phrases that take back what was said before, such as `on reflection` and `forget what I said`."""
    changing: str = ""
    """Words that often change or lift a rule, but not always, such as `from now on` and `is fine`."""
    adding: str = ""
    """Words that say that a sentence holds in addition to others, such as `also`."""
    no_rule: str = ""
    """Phrases that contain cue words but set no rule, such as `I do not remember`."""


SPACED: Mapping[str, Cues] = {
    "en": Cues(
        revoking=r"on (?:second thoughts?|reflection)|come to think of it|chang\w{1,3} my mind"
        r"|(?:forget|ignore|disregard|scratch|never ?mind|skip|drop|cancel|strike|withdraw|revoke"
        r"|lift|undo|retract)"
        r" (?:that|it|this|what|everything|(?:my|the|that|this|any|all)"
        r" (?:\w{1,20} ){0,3}(?:rules?|instructions?|requests?|requirements?|restrictions?|limits?|preferences?"
        r"|constraints?|bans?))"
        r"|(?:take|taking) (?:that|it|this|what I said) back|take back (?:what|that|my)"
        r"|thought (?:about|over) .{1,40} again|thinking (?:about|over) .{1,40} again|having thought"
        r"|reconsider\w{0,3}"
        r"|after all|it turns out|as it turns out|turned out|(?:what|as) I (?:said|told you"
        r"|asked)(?: \w{1,12}){0,3}"
        r" (?:before|earlier|about|no longer)|no longer (?:true|applies|holds?|needed|necessary"
        r"|valid|matters?|required)"
        r"|(?:does|do)(?:n['’]t| not) (?:apply|matter|hold) any ?more|I was wrong|correction:"
        r"|(?:previous|earlier|former|old) (?:\w{1,20} )?(?:rules?|instructions?|requests?|limits?"
        r"|preferences?)",
        changing=r"actually|instead|from (?:now|here|today|this point) on(?:wards?)?|going forward"
        r"|as of (?:now|today)"
        r"|any ?more|any longer|no longer|switch|the new|my new|new (?:rule|limit)|raise|relax|extend"
        r"|(?:is|are) (?:also )?(?:fine|ok|okay|alright|allowed|welcome)|(?:would|will|['’]d"
        r"|can) be (?:fine|ok|okay|nicer)"
        r"|(?:fine|ok|okay) (?:with|by) me|you (?:may|can|could)|feel free|(?:do not|don['’]t"
        r"|doesn['’]t) mind|no need"
        r"|(?:do not|don['’]t|needn['’]t|doesn['’]t|does not) (?:have|need) to|not necessary|doesn['’]t matter"
        r"|rather|easier|stop|permitted|not (?:required|needed)|either way",
        adding=r"also|too|additionally|in addition|as well|besides|on top of that|moreover|furthermore|another",
    ),
    "de": Cues(
        duty=r"muss|müssen|musst|müsst|darf|darfst|dürfen|dürft|nie|niemals|nimmer|immer|keinesfalls"
        r"|auf keinen fall"
        r"|unter keinen umständen|unbedingt|in jedem fall|auf jeden fall|verboten|untersagt|pflicht|zwingend"
        r"|sorg\w{1,4} dafür|stell\w{0,3} sicher|achte\w{0,2} darauf|nicht ohne|ohne (?:meine|mich|vorher)"
        r"|hör\w{0,2} auf|ab (?:jetzt|sofort|heute)|von nun an|künftig|mindestens|höchstens|maximal"
        r"|kein\w{0,2}",
        limit=r"^(?:bitte )?(?:lass(?:t|en sie)?|bleibt?|halt(?:e|et)? dich)|nicht nach (?:vorne|hinten|unten|oben)|"
        r"(?:finger|hände) weg|^dass (?:ja )?(?:niemand|nichts)|besteh\w{1,2} (?:ich )?(?:auf|darauf)|tabu|"
        r"(?:fliege|reise|fahre|esse|trinke|nehme|zahle|nutze|kaufe|buche|rauche) (?:ich )?.{0,30}nicht|"
        r"ohne .{1,30} (?:buche|kaufe|nehme|zahle)|"
        r"^(?:bitte )?(?:rühr\w?|fass\w?|ruf\w?|schreib\w?|änder\w?|buch\w?|schick\w?|nimm) .{1,80}nicht|"
        r"nur|ausschließlich|lediglich|soll|sollen|sollst|sollte\w{0,2}|bevorzug\w{1,3}|lieber"
        r"|vermeid\w{1,3}"
        r"|nicht mehr als|nicht weniger als|jede[rsmn]?|alle[rsnm]? \w{3,20}|stets|statt|anstatt"
        r"|anstelle|außer|es sei denn"
        r"|bevor|innerhalb|spätestens|vor dem|budget|grenze|obergrenze|allergisch|vegetari\w{2,4}"
        r"|vegan|vertraulich"
        r"|bitte nicht|nicht in frage|nicht aus|unter uns|vertrage|^(?:bitte )?\w{3,20}n sie\b"
        r"|\w{3,20}n sie .{0,80}(?:nicht|kein\w{0,2})|wichtig|genau|nenn\w{0,3} mich|sprich mich"
        r"|standardmäßig",
        wish=r"bitte|möchte|will|hätte gern\w?|wünsch\w{1,3}|brauche",
        revoking=r"(?:wenn ich|bei) .{0,20}(?:überleg|nachdenk|betracht)\w{0,5}|überlegt|anders überlegt"
        r"|vergiss|vergessen sie|ignorier\w{1,3}|was ich (?:gesagt|vorhin)|nachgedacht|meine meinung geändert"
        r"|doch|gilt nicht mehr|zurück(?:nehm\w{0,3}|ziehe?n?)|nehme? .{1,40} zurück|streich\w{0,3}"
        r"|(?:frühere|vorherige|bisherige)\w? (?:anweisung|regel|vorgabe|bitte)\w{0,3}"
        r"|stellt\w? sich heraus|herausstellt",
        changing=r"eigentlich|ab (?:jetzt|sofort|heute)|von nun an|künftig|inzwischen|stattdessen|sondern"
        r"|nicht mehr|mehr"
        r"|egal|(?:ist|sind|wäre\w?|geht|gehen) .{0,30}(?:okay|ok|in ordnung)|in ordnung|erlaubt"
        r"|dürfen|darfst|darf"
        r"|kannst|können sie|kann man|lieber|jetzt|neue[rsn]?|geändert|änder\w{1,3}|wechs\w{2,4}|umstell\w{1,3}"
        r"|nicht nötig|brauch\w{1,3} nicht|müssen nicht|musst nicht|muss nicht|muss man nicht",
        adding=r"auch noch|außerdem|zusätzlich|ebenfalls|ebenso",
        no_rule=r"ich (?:weiß|kann|konnte|verstehe|finde|habe|hatte|bin|erinnere|sehe|kenne) .{0,40}(?:nicht"
        r"|keine?\w?|nie)|keine ahnung|kein problem|muss .{1,40} (?:haben|sein)|alles klar|nicht (?:wahr"
        r"|schlimm)",
    ),
    "es": Cues(
        duty=r"nunca|jamás|siempre|deb\w{1,5}|no debe\w{0,3}|tien\w{1,3} que|tenemos que|hay que|prohib\w{2,6}"
        r"|obligatori\w{1,2}|bajo ningun\w? \w{1,20}|en ningún caso|es necesario|asegúr\w{1,5}"
        r"|como (?:máximo|mínimo)"
        r"|al menos|a partir de ahora|desde ahora|de ahora en adelante|sin (?:mi|preguntar|avisar|consultar)"
        r"|dej\w{1,3} de|no (?:puede|puedes|pueden|podemos|se puede)|imprescindible|exijo|requier\w{1,3}",
        limit=r"^(?:por favor,? )?(?:dej[ae]n?|mant[eé]n|limít\w{1,3}|usa|pon)|no a (?:la|el|los|las)|no al|"
        r"^que (?:nadie|nada|sea)|como mucho|a lo sumo|ni se te ocurra|cuidado con|insisto en|"
        r"no (?:viajo|vuelo|bebo|tomo|acepto|pago|uso|compro|reservo|conduzco|fumo)|"
        r"nada de|sol[oa]|sólo|solamente|únicamente|exclusivamente|prefier\w{1,3}|preferi\w{1,5}"
        r"|evit\w{1,4}|no quiero"
        r"|no (?:me |lo |la |les? )?\w{3,14}(?:es|as|en|an)|ningun[oa]?|ningún|cada|todos|todas"
        r"|máximo|mínimo|límite|presupuesto|menos de"
        r"|más de|en lugar de|en vez de|salvo|excepto|a menos que|antes de|después de|alérgic\w"
        r"|vegetarian\w|vegan\w"
        r"|confidencial|importante|exactamente|llám\w{1,3}me|recuerd\w{1,3} que|no más",
        wish=r"por favor|quiero|quisiera|querría|me gustaría|necesito|prefería|ojalá",
        revoking=r"pensándolo (?:bien|mejor)|lo he pensado|he vuelto a pensar|he cambiado de (?:idea|opinión)"
        r"|cambié de (?:idea|opinión)|olvid\w{1,4}(?: (?:de )?lo que| eso| lo)|ignora\w{0,2}"
        r"|lo que (?:te )?dije"
        r"|retiro lo|ya no|al final sí?|después de todo|resulta que|(?:anterior\w{0,2}|previ[ao]s?)"
        r"|instrucción anterior|sin efecto|anul\w{1,3}|cancel\w{1,3} (?:esa|la) (?:regla"
        r"|instrucción)|me equivoqué",
        changing=r"en realidad|la verdad|desde ahora|a partir de ahora|de ahora en adelante|ahora|en (?:su"
        r"|cambio|vez)"
        r"|en lugar|no .{1,30} más|me da igual|da igual|(?:está|están|estaría) bien|también vale"
        r"|vale|pued\w{1,3}"
        r"|se puede|permitid\w{1,2}|no hace falta|no es necesario|nuev[oa]s?|cambi\w{1,4}|mejor"
        r"|más (?:cómodo|fácil)",
        adding=r"además|asimismo|igualmente",
        no_rule=r"no (?:sé|recuerdo|entiendo|puedo|tengo|encuentro|veo|me acuerdo|estoy|conozco|hay|es|pasa"
        r"|importa|está|funciona)|debe de|no hay (?:problema|prisa)",
    ),
    "fr": Cues(
        duty=r"jamais|toujours|(?:doi[st]|devez|doivent|devons|devra\w{0,2}|devrez)|il faut|faut"
        r"|interdit\w{0,2}"
        r"|obligatoire\w?|obligatoirement|impérati\w{1,5}|en aucun cas|sous aucun prétexte"
        r"|assure[zr]?(?:-vous|-toi)"
        r"|veille[zr]? à|veillez|au (?:plus|maximum|minimum)|au moins|à partir de maintenant"
        r"|désormais|dorénavant"
        r"|sans (?:mon|ma|me|demander|prévenir)|arrêt\w{1,3} de|ne (?:peut|peuvent|pouvez|peux) pas"
        r"|n['’]oubli\w{1,3} pas",
        limit=r"pas (?:devant|derrière|dedans|dehors)|"
        r"^que (?:personne|rien|tout)|surtout,? (?:pas|ne|n['’])|(?:pas|hors de) question|tiens à|insiste pour|"
        r"^(?:laisse|garde|évite|reste|prends|mets|utilise|envoie|écris|demande|préviens)|"
        r"seulement|uniquement|exclusivement|ne .{1,40} que|préf\w{2,7}|évit\w{1,3}"
        r"|^\w{3,20}ez(?:-\w{1,4})?|pas (?:de|plus)|(?:ne|n['’]) ?.{1,40}\b(?:pas|plus|aucune?|rien"
        r"|ni)|aucune?|chaque|toutes?|tous|maximum|minimum|limite"
        r"|budget|moins de|plus de|au lieu de|plutôt que|sauf|à moins que|avant de|avant|allergique"
        r"|végétarien\w{0,3}"
        r"|végane?|confidentiel\w{0,3}|important\w{0,2}|exactement|appelle[zr]?-moi|strictement",
        wish=r"s['’]il (?:vous|te) pla[iî]t|veuillez|je (?:veux|voudrais|souhaite\w{0,4})|j['’]aimerais"
        r"|merci de"
        r"|prière de|j['’]ai besoin",
        revoking=r"réflexion faite|à la réflexion|après réflexion|j['’]ai (?:bien )?(?:réfléchi|repensé"
        r"|changé d['’]avis)"
        r"|oubli\w{1,3} (?:ce que|cela|ça|ma|mon|la|le)|ignor\w{1,3}|ce que j['’]ai dit"
        r"|ne tenez plus compte|finalement"
        r"|tout compte fait|je (?:retire|reviens sur)|annul\w{1,3}|il s['’]avère|consigne précédente"
        r"|(?:précédente?s?)|après tout|n['’]est plus (?:valable|nécessaire)|je me suis tromp\w{1,3}",
        changing=r"en fait|à vrai dire|désormais|dorénavant|à partir de maintenant|maintenant|plutôt|à la place"
        r"|ne .{1,40} plus|peu importe|ça (?:irait|va|me va)|me convient|conviennent|vous pouvez"
        r"|tu peux|on peut"
        r"|autorisée?s?|permise?s?|pas (?:besoin|nécessaire)|nouve\w{1,4}|chang\w{1,4}|mieux"
        r"|plus (?:utiles?|simples?)",
        adding=r"également|de plus|en outre|par ailleurs",
        no_rule=r"je (?:ne|n['’]) ?(?:me |m['’]|le |la |les )?(?:sais|peux|souviens|comprends|trouve"
        r"|vois|connais|suis|ai"
        r"|arrive) .{0,20}(?:pas|plus|rien|jamais)|toute la (?:journée|nuit|soirée|semaine)"
        r"|il (?:n['’]y a|ne marche) pas|pas de (?:problème"
        r"|souci)",
    ),
    "pt": Cues(
        duty=r"nunca|jamais|sempre|deve\w{0,3}|tem de|tem que|têm de|têm que|é preciso|precisa\w{0,2}"
        r"|proibid\w{1,2}"
        r"|obrigatóri\w{1,2}|de (?:modo|forma) (?:nenhum|alguma)|em (?:caso|hipótese) (?:algum|alguma|nenhuma?)"
        r"|certifi\w{1,5}|garant\w{1,3}|no (?:máximo|mínimo)|pelo menos|a partir de agora|daqui (?:em|para)"
        r"|sem (?:meu|minha|perguntar|avisar)|não (?:pode\w{0,2}|deve\w{0,2})|pare de|deixe de|exijo",
        limit=r"^(?:por favor,? )?(?:deix[ae]m?|mantenha\w{0,2}|mantém|limite-se|use)|"
        r"^que (?:ninguém|nada)|faço questão|nem pensar|ultrapass\w{1,4}|cuidado com|insisto em|"
        r"não (?:viajo|voo|bebo|tomo|aceito|pago|uso|compro|reservo|conduzo|dirijo|fumo)|"
        r"nada de|seja|só|somente|apenas|exclusivamente|unicamente|prefir\w{1,3}|prefer\w{1,5}"
        r"|evit\w{1,3}|não \w{3,14}(?:e|em|a|am|es|as)|não quer\w{1,3}"
        r"|nenhuma?|cada|todos|todas|todo|toda|máximo|mínimo|limite|orçamento|menos de|mais de"
        r"|em vez de|ao invés de"
        r"|exceto|salvo|a menos que|antes de|depois de|alérgic\w|vegetarian\w|vegan\w|confidencial|importante"
        r"|exatamente|me chame|chame-me|lembre",
        wish=r"por favor|quero|queria|gostaria|preciso|favor",
        revoking=r"pensando (?:bem|melhor)|mudei de (?:ideia|opinião)|esqueça|esquece|ignore|o que eu disse"
        r"|retiro"
        r"|afinal|já não|não (?:vale|importa) mais|instrução anterior|anterior\w{0,2}|acontece que"
        r"|cancele|repensei",
        changing=r"na verdade|agora|a partir de agora|em vez|tanto faz|(?:está|fica) bem|tudo bem|pode|podem"
        r"|permitid\w{1,2}"
        r"|não (?:é|precisa) (?:mais|preciso|necessário)|nov[oa]s?|mud\w{1,4}|troqu\w{1,3}|mais|melhor",
        adding=r"além disso|igualmente|adicionalmente",
        no_rule=r"não (?:sei|lembro|entendo|posso|tenho|encontro|vejo|conheço|há|é|estou|consigo|foi|está"
        r"|funciona)|deve ter",
    ),
    "it": Cues(
        duty=r"mai|sempre|dev[eio]|devono|dovete|dovrà|bisogna|occorre|è necessario|vietat\w|proibit\w"
        r"|obbligatori\w"
        r"|in nessun caso|per nessun motivo|assicura\w{1,4}|al (?:massimo|minimo|più)|almeno|d['’]ora in poi"
        r"|da (?:ora|adesso) in (?:poi|avanti)|senza (?:il mio|la mia|chiedere|avvisare)|non (?:può"
        r"|puoi|possono|deve)"
        r"|smett\w{1,4} di|assolutamente",
        limit=r"^(?:per favore,? )?(?:lasci[ao]\w{0,2}|manten\w{1,3}|tieni|attien\w{1,3}|usa)|non (?:davanti|dietro)|"
        r"^che (?:nessuno|niente)|guai a|mi raccomando|ci tengo|insisto|(?:non )?oltre (?:i|le|gli|l['’]|\d)|"
        r"non (?:viaggio|volo|mangio|bevo|prendo|accetto|pago|uso|compro|prenoto|guido|fumo)|"
        r"niente|sii|solo|soltanto|solamente|unicamente|esclusivamente|prefer\w{2,5}|evita\w{0,2}"
        r"|non \w{3,14}(?:re|te|i)|non vogli\w{1,3}|nessun\w?"
        r"|ogni|tutt[ieoa]|massimo|minimo|limite|budget|meno di|più di|invece di|piuttosto che"
        r"|tranne|eccetto|a meno"
        r"|prima di|dopo|allergic\w|vegetarian\w|vegan\w|riservat\w|importante|esattamente"
        r"|chiama\w{0,2}mi|ricord\w{1,3}",
        wish=r"per favore|per piacere|voglio|vorrei|mi piacerebbe|ho bisogno|cortesemente|desidero",
        revoking=r"ripensandoci|pensandoci bene|ho cambiato idea|ci ho ripensato|dimentica\w{0,2}|ignora\w{0,2}"
        r"|quello che ho detto|ritiro|alla fine|dopo tutto|non vale più|precedent\w|si è scoperto"
        r"|annulla\w{0,2}",
        changing=r"in realtà|adesso|ora|d['’]ora in poi|invece|al (?:suo )?posto|non .{1,30} più|va (?:bene"
        r"|benissimo)"
        r"|vanno bene|puoi|può|potete|permess\w|consentit\w|non serve|non è necessario|nuov\w"
        r"|cambi\w{1,3}|meglio"
        r"|non importa|fa lo stesso",
        adding=r"anche|inoltre|in aggiunta",
        no_rule=r"non (?:so|ricordo|capisco|posso|ho|trovo|vedo|conosco|c['’]è|è|sono|riesco|funziona)"
        r"|nessun problema",
    ),
    "nl": Cues(
        duty=r"moet|moeten|mag|mogen|nooit|altijd|nimmer|verboden|verplicht|onder geen (?:beding"
        r"|voorwaarde)|in geen geval"
        r"|zorg (?:ervoor|dat)|zorg er|minstens|minimaal|hoogstens|maximaal|vanaf nu|voortaan"
        r"|zonder (?:mijn|eerst|te)"
        r"|stop met|absoluut|beslist|dient|dienen",
        limit=r"^(?:alsjeblieft,? )?(?:laat|houd|hou|blijf|gebruik)|"
        r"hooguit|ten hoogste|telkens|sta erop|niet (?:duurder|later|eerder)|"
        r"(?:reis|vlieg|eet|drink|neem|betaal|gebruik|koop|boek|rook) ik (?:\w{1,20} )?niet|"
        r"ik (?:reis|vlieg|eet|drink|neem|betaal|gebruik|koop|boek|rook) .{0,30}niet|"
        r"alleen|slechts|uitsluitend|enkel|liever|voorkeur|vermijd\w{0,2}|geen .{1,30} (?:voor|na"
        r"|zonder|bij)|aan niemand|houd|niet (?:meer|voor|na|zonder)|wil geen|wil niet|elke?"
        r"|ieder\w?|alle|steeds"
        r"|budget|limiet|maximum|minimum|minder dan|meer dan|in plaats van|behalve|tenzij|voordat"
        r"|binnen|uiterlijk"
        r"|allergisch|vegetari\w{2,4}|veganist\w{0,3}|vertrouwelijk|belangrijk|precies|noem me"
        r"|zou\w{0,2} moeten",
        wish=r"alstublieft|alsjeblieft|graag|wil|zou willen|wens|nodig",
        revoking=r"bij nader inzien|achteraf|ik (?:heb me|ben van) .{0,20}(?:bedacht|gedachten)|vergeet"
        r"|negeer|wat ik zei"
        r"|toch|bij nader|geldt niet meer|eerdere|vorige|blijkt|trek .{1,30} in",
        changing=r"eigenlijk|voortaan|vanaf nu|nu|in plaats daarvan|niet meer|geen .{1,30} meer"
        r"|maakt niet uit|prima|oké"
        r"|is goed|mag|mogen|kan|kunnen|hoeft niet|hoeven niet|nieuwe?|verander\w{0,2}|wijzig\w{0,2}"
        r"|liever|beter",
        adding=r"ook|bovendien|daarnaast|tevens",
        no_rule=r"ik (?:weet|kan|begrijp|vind|heb|had|ben|zie|ken|herinner) .{0,40}(?:niet|geen|nooit)"
        r"|geen (?:idee|probleem)",
    ),
    "pl": Cues(
        duty=r"musi\w{0,5}|muszą|muszę|trzeba|należy|nigdy|zawsze|nie wolno|zabrania\w{0,3}|zakaz\w{0,4}"
        r"|koniecznie"
        r"|obowiązkow\w{1,3}|pod żadnym pozorem|w żadnym (?:razie|wypadku)|upewnij się|co najmniej|co najwyżej"
        r"|maksymalnie|minimalnie|od (?:teraz|dzisiaj|dziś)|bez (?:mojej|pytania)|nie (?:może|można"
        r"|mogą|powin\w{1,4})"
        r"|przestań",
        limit=r"^(?:proszę,? )?(?:zostaw\w{0,3}|trzymaj\w{0,3}|zachowaj\w{0,3}|używaj\w{0,3})|"
        r"niech|najwyżej|nie (?:rób|bierz|pisz|mów|płać|chodź|wchodź)(?:cie)?|przekr[ao]cz\w{1,4}|zależy mi|nalegam|"
        r"nie (?:podróżuję|latam|jeżdżę|jem|piję|biorę|przyjmuję|płacę|używam|kupuję|rezerwuję|palę)|poniżej|powyżej|"
        r"tylko|wyłącznie|jedynie|wol[ęi]\w{0,3}|preferuj\w{1,2}|unikaj\w{0,3}|nie \w{3,14}(?:j|jcie"
        r"|cie)|nie chc\w{1,4}|żadn\w{1,4}|każd\w{1,4}"
        r"|wszystki\w{1,3}|wszystkie|limit\w{0,3}|budżet\w{0,3}|mniej niż|więcej niż|zamiast|oprócz"
        r"|z wyjątkiem|chyba że"
        r"|zanim|przed|najpóźniej|uczulon\w{1,2}|alergi\w{1,3}|wegetari\w{2,6}|wega\w{2,5}"
        r"|poufn\w{1,3}|ważne|dokładnie"
        r"|powin\w{2,5}|nazywaj",
        wish=r"proszę|chc[ęi]\w{0,3}|chciał\w{1,4}|potrzebuj\w{1,2}|życz\w{1,3}",
        revoking=r"po namyśle|po zastanowieniu|zmieni\w{1,4} zdanie|zapomnij\w{0,3}|zignoruj\w{0,3}"
        r"|co (?:mówi|powiedzia)\w{1,4}"
        r"|jednak|cofam|odwołuj\w{1,2}|wcześniejsz\w{1,3}|poprzedni\w{1,3}|okazało się|nie obowiązuje",
        changing=r"właściwie|w sumie|teraz|od (?:teraz|dziś)|zamiast tego|już nie|nie .{1,30} już|może być"
        r"|można|możesz"
        r"|możecie|wszystko jedno|nie trzeba|nie musi\w{0,3}|dozwolon\w{1,2}|now[yaei]\w{0,3}"
        r"|zmie\w{2,4}|lepiej|w porządku",
        adding=r"też|także|również|dodatkowo|ponadto",
        no_rule=r"nie (?:wiem|pamiętam|rozumiem|mogę|mam|widzę|znam|jestem|ma|jest|działa|szkodzi)",
    ),
    "tr": Cues(
        duty=r"asla|hiçbir (?:zaman|şekilde|koşulda)|her ?zaman|daima|mutlaka|kesinlikle|zorunlu\w{0,6}"
        r"|yasak\w{0,4}"
        r"|gerek\w{0,5}|lazım|şart\w{0,3}|sakın|en (?:az|fazla|çok)|bundan (?:sonra|böyle)|emin ol\w{0,5}"
        r"|\w{2,20}m[ae]l[ıi](?:s[ıi]n|y[ıi]m|y[ıi]z|d[ıi]r)?|\w{2,20}m[ae](?:y[ıi]n(?:[ıi]z)?|s[ıi]n)",
        limit=r"bırak\w{0,5}|\w{2,20}s[ıiuü]n|\w{2,20}m[ae]m|sadece|yalnızca|yalnız|tercih\w{0,8}|kaçın\w{0,6}"
        r"|\w{2,20}m[ıiuü]yorum|istem\w{2,8}|hiç|her|bütün|tüm"
        r"|limit\w{0,3}|bütçe\w{0,4}|sınır\w{0,4}|yerine|hariç|dışında|olmadıkça|önce|içinde"
        r"|alerji\w{0,4}|vejetaryen"
        r"|vegan|gizli|önemli|tam olarak|\w{2,20}m[ae](?=[.!]?$)|değil",
        wish=r"lütfen|ist(?:iyorum|erim|eriz)|rica \w{2,8}|ihtiyac\w{1,4}",
        revoking=r"düşününce|düşündüm de|fikrimi değiştirdim|vazgeçtim|unut\w{0,4}|boş ver|dediğim\w{0,3}"
        r"|söylediğim\w{0,4}"
        r"|önceki|daha önce\w{0,4}|meğer|iptal|geçerli değil|artık geçer\w{0,6}",
        changing=r"aslında|artık|bundan (?:sonra|böyle)|şimdi|bunun yerine|yerine|olur|olabilir|sorun değil"
        r"|fark etmez"
        r"|gerek (?:yok|kalmadı)|serbest|izin\w{0,3}|yeni|değiş\w{1,6}|daha iyi",
        adding=r"ayrıca|üstelik|bir de",
        no_rule=r"(?:bilmiyorum|hatırlamıyorum|anlamıyorum|bulamıyorum|göremiyorum|emin değilim)",
    ),
    "vi": Cues(
        duty=r"phải|không (?:được|bao giờ|thể)|đừng|chớ|luôn(?: luôn)?|cấm|bắt buộc|nhất (?:định|thiết)"
        r"|tuyệt đối|cần phải"
        r"|bảo đảm|đảm bảo|tối (?:đa|thiểu)|ít nhất|nhiều nhất|từ (?:nay|giờ|bây giờ)|nghiêm cấm",
        limit=r"không quá|vượt quá|miễn là|yêu cầu|"
        r"chỉ|duy nhất|nên|thích|ưu tiên|tránh|không muốn|mỗi|mọi|tất cả|giới hạn|ngân sách|dưới|trên"
        r"|thay vì|trừ|trừ khi|trước khi|trong vòng|dị ứng|ăn chay|bảo mật|quan trọng|chính xác|gọi tôi",
        wish=r"vui lòng|xin|làm ơn|hãy|tôi muốn|mong",
        revoking=r"nghĩ lại|đổi ý|quên .{0,30}(?:đi|tôi (?:nói|bảo))|bỏ qua|hóa ra|rốt cuộc|trước đây"
        r"|lúc trước|không còn",
        changing=r"thật ra|thực ra|bây giờ|từ (?:nay|giờ)|thay vào đó|nữa|cũng được|được rồi|có thể|không cần"
        r"|không sao"
        r"|mới|đổi|chuyển sang|tốt hơn",
        adding=r"ngoài ra|thêm nữa|hơn nữa",
        no_rule=r"tôi không (?:biết|nhớ|hiểu|thấy|tìm|có|chắc)|không có gì",
    ),
    "id": Cues(
        duty=r"harus|wajib|jangan(?:lah)?|selalu|tidak (?:boleh|pernah)|dilarang|pastikan"
        r"|paling (?:banyak|sedikit|lambat)"
        r"|maksimal|minimal|mulai sekarang|tanpa (?:izin|bertanya)|sama sekali|perlu",
        limit=r"tidak lebih|asalkan|melebihi|utamakan|"
        r"hanya|cuma|sebaiknya|lebih suka|hindari|tidak mau|tidak ingin|setiap|semua|batas|anggaran"
        r"|kurang dari|lebih dari|daripada|kecuali|sebelum|dalam waktu|alergi|vegetarian|vegan"
        r"|rahasia|penting|persis"
        r"|panggil saya",
        wish=r"tolong|mohon|harap|saya (?:mau|ingin|butuh)|silakan",
        revoking=r"setelah (?:dipikir|saya pikir)\w{0,6}|berubah pikiran|lupakan|abaikan|yang saya (?:katakan"
        r"|bilang)"
        r"|ternyata|sebelumnya|tidak berlaku lagi|batalkan",
        changing=r"sebenarnya|sekarang|mulai sekarang|sebagai gantinya|lagi|tidak apa-apa|tidak masalah|boleh"
        r"|bisa"
        r"|tidak perlu|baru|ubah|ganti|lebih baik|terserah",
        adding=r"juga|selain itu|tambahan",
        no_rule=r"saya tidak (?:tahu|ingat|mengerti|bisa|punya|yakin|menemukan)|tidak ada masalah",
    ),
    "sv": Cues(
        duty=r"måste|får|aldrig|alltid|skall|förbjudet|obligatorisk\w?|under inga omständigheter|absolut"
        r"|se till"
        r"|minst|högst|max|från och med nu|hädanefter|utan att|sluta|behöver",
        limit=r"^låt|inte (?:mer|senare|dyrare)|insisterar|överstiga|"
        r"jag (?:reser|flyger|äter|dricker|tar|betalar|använder|köper|bokar|röker) (?:.{1,30} )?inte|"
        r"bara|endast|enbart|ska|bör|föredrar|hellre|undvik|vill inte|inte ha|varje|alla"
        r"|gräns\w{0,3}|budget"
        r"|mindre än|mer än|i stället för|istället för|utom|förutom|om inte|innan|inom|senast"
        r"|allergisk\w?|vegetarian"
        r"|vegan|konfidentiell\w?|viktigt|exakt|kalla mig",
        wish=r"tack|snälla|vänligen|jag vill|önskar|skulle vilja|var vänlig",
        revoking=r"vid närmare eftertanke|när jag tänker efter|ändrat mig|glöm|ignorera|bortse|det jag sa"
        r"|trots allt"
        r"|visade sig|visar sig|tidigare|gäller inte längre",
        changing=r"egentligen|faktiskt|nu|från och med nu|i stället|istället|längre|går bra|är okej"
        r"|spelar ingen roll|kan"
        r"|får|behöver inte|tillåtet|ny|nya|nytt|ändra|byt|bättre",
        adding=r"också|dessutom|även",
        no_rule=r"jag (?:vet|kan|minns|förstår|hittar|har|hade|är|ser) .{0,40}(?:inte|ingen|aldrig)"
        r"|inga problem",
    ),
    "ru": Cues(
        duty=r"никогда|всегда|нельзя|долж\w{1,4}|обязательно|обязан\w{0,2}|надо|нужно|необходимо"
        r"|запрещ\w{2,6}|запрет\w{0,3}"
        r"|ни в коем случае|ни при каких|ни за что|требую|требуется|убедитесь|проследи\w{0,3}"
        r"|не более|не менее|не позже"
        r"|не больше|не меньше|не раньше|как минимум|максимум|минимум|отныне|впредь|с этого момента"
        r"|без (?:моего|моей)"
        r"|перестань\w{0,2}|не (?:смей|допускай)\w{0,2}|следует",
        limit=r"\w{3,20}(?:йте|ите|ьте)(?:сь)?|"
        r"пусть|чтобы (?:никто|ничего|не)|настаиваю|не (?:дороже|дешевле|выше|ниже|дольше|ближе|дальше)|в пределах|"
        r"не (?:летаю|езжу|ем|пью|беру|принимаю|плачу|пользуюсь|покупаю|бронирую|курю)|оставь|"
        r"^\w{2,15}(?:ай|уй|яй) (?:мне|меня|нам|мо\w{1,4})|"
        r"только|лишь|исключительно|предпочит\w{2,4}|лучше"
        r"|избега\w{2,4}|не \w{2,18}(?:йте|ите|ьте|ь|й)|не хо\w{1,4}|никак\w{1,4}|ни один\w?"
        r"|кажд\w{1,4}"
        r"|всех?|любо\w{1,3}|лимит\w{0,3}|бюджет\w{0,3}|предел\w{0,3}|меньше|больше|вместо|кроме"
        r"|если не|прежде чем|до того"
        r"|в течение|аллерги\w{1,4}|вегетариан\w{2,5}|веган\w{0,3}|конфиденциальн\w{1,3}|важно|ровно|точно"
        r"|называй\w{0,2}|обращай\w{0,4}|без",
        wish=r"пожалуйста|прошу|хочу|хотел\w{0,2}|хотелось|желательно|просьба|мне бы",
        revoking=r"если подумать|подумав|передумал\w?|поразмыслив|забудь\w{0,2}|не обращайте внимания"
        r"|игнорируй\w{0,2}"
        r"|что я (?:говорил|сказал|просил)\w?|ещё подумал\w?|подумал\w? .{0,30}(?:снова|ещё)"
        r"|отмен\w{1,4}|прежн\w{1,3}"
        r"|предыдущ\w{2,3}|ран(?:ее|ьше)|вс[её]-таки|оказалось|больше не (?:нужно|действует"
        r"|актуально)|беру .{1,20} назад"
        r"|в итоге",
        changing=r"вообще-то|на самом деле|теперь|с этого момента|отныне|впредь|вместо этого|больше не|уже не"
        r"|уже|можно"
        r"|можете|можешь|разреш\w{2,5}|подойд[её]т|подходит|не против|вс[её] равно|неважно"
        r"|не обязательно|не нужно|не надо"
        r"|нов\w{2,3}|измени\w{0,4}|смени\w{0,4}|перейд\w{1,4}|удобнее|лучше|нормально|годится|хорошо",
        adding=r"также|тоже|кроме того|к тому же|вдобавок",
        no_rule=r"не (?:знаю|помню|понимаю|могу|вижу|нашла?|нашёл|уверен\w?|был\w?|получ\w{2,5}|работает"
        r"|пришл\w?"
        r"|смогла?|успел\w?)|нет проблем|долж\w{1,3} быть",
    ),
    "uk": Cues(
        duty=r"ніколи|завжди|не можна|повин\w{1,4}|обов['’ʼ]язков\w{1,3}|треба|потрібно|необхідно|слід"
        r"|мус\w{2,4}"
        r"|заборонен\w{1,2}|заборон\w{2,5}|в жодному разі|за жодних|переконайтес\w{1,2}|не більше"
        r"|не менше|не пізніше"
        r"|щонайменше|щонайбільше|максимум|мінімум|відтепер|надалі|без (?:мого|моєї)|припини\w{0,3}",
        limit=r"\w{3,20}(?:йте|іть|ьте)(?:ся)?|"
        r"нехай|хай|щоб (?:ніхто|нічого|не)|наполягаю|не (?:дорожче|дешевше|вище|нижче|довше|ближче|далі)|у межах|"
        r"не (?:літаю|їжджу|їм|п['’ʼ]ю|беру|приймаю|плачу|користуюся|купую|бронюю|палю)|залиш|"
        r"^\w{2,15}(?:ай|уй|яй) (?:мені|мене|нам|мо\w{1,4})|"
        r"тільки|лише|виключно|винятково|волію|краще|уника\w{2,4}"
        r"|не \w{2,18}(?:йте|іть|ьте|ь|й)|не хо\w{1,4}|жодн\w{1,4}|кож\w{2,4}|усіх?|всіх?"
        r"|ліміт\w{0,3}|бюджет\w{0,3}|межа|менше|більше|замість|крім|окрім|якщо не|перш ніж|перед"
        r"|протягом|алергі\w{1,3}"
        r"|вегетаріан\w{2,5}|веган\w{0,3}|конфіденційн\w{1,3}|важливо|рівно|точно|називай\w{0,2}|без",
        wish=r"будь ласка|прошу|хочу|хотів|хотіла|бажано|прохання",
        revoking=r"якщо подумати|подумавши|передума\w{1,3}|забудь\w{0,2}|ігнору\w{1,4}|що я (?:казав|казала"
        r"|просив|просила)"
        r"|скас\w{2,5}|попередн\w{1,3}|раніше|все-таки|виявилос\w{1,2}|більше не (?:треба|діє)",
        changing=r"насправді|взагалі-то|тепер|відтепер|надалі|натомість|більше не|вже не|вже|можна|можете"
        r"|можеш|дозвол\w{2,5}"
        r"|підійде|підходить|байдуже|однаково|не обов['’ʼ]язково|не треба|не потрібно|нов\w{1,3}"
        r"|зміни\w{0,4}|зручніше"
        r"|краще|гаразд",
        adding=r"також|теж|крім того|до того ж",
        no_rule=r"не (?:знаю|пам['’ʼ]ятаю|розумію|можу|бачу|знайш\w{2,3}|впевнен\w?|бул\w|отрим\w{2,5}|працює)"
        r"|немає проблем",
    ),
    "ar": Cues(
        duty=r"يجب|لا ?بد|ينبغي|لا يجوز|لا يمكن|ممنوع|يمنع|محظور|أبد[اً]{1,2}|دائم[اً]{1,2}|إياك|احذر"
        r"|ضروري|إلزامي|مطلقا"
        r"|على الأقل|على الأكثر|كحد (?:أقصى|أدنى)|من الآن فصاعدا|تأكد|لا ت\w{2,12}|توقف عن|دون إذني",
        limit=r"اجعل|لا تعط|لن \w{2,12}|"
        r"ألا |حذار|أصر|بشرط|ما عدا|سوى|لا غير|استأذن|لا (?:يزيد|يقل|يتجاوز)|"
        r"^(?:اترك|دع)|لا (?:أسافر|أطير|آكل|أشرب|آخذ|أقبل|أدفع|أستخدم|أشتري|أحجز|أدخن)|"
        r"فقط|حصرا|لا أريد|لا أحب|أفضل|تجنب|كل|جميع|أي|حد|ميزانية|أقل من"
        r"|أكثر من|بدلا من|باستثناء|إلا|ما لم|قبل"
        r"|خلال|حساسية|نباتي\w?|سري\w?|مهم|بالضبط",
        wish=r"من فضلك|رجاء|أرجو|أريد|أود|لو سمحت|أحتاج",
        revoking=r"بعد التفكير|غيرت رأيي|انس|تجاهل|ما قلته|تراجعت|اتضح|في النهاية|السابق\w{0,2}|لم يعد|ألغ",
        changing=r"في الواقع|الآن|من الآن|بدلا|لا بأس|لا مانع|يمكن\w{0,3}|مسموح|لا داعي|لا يهم|جديد\w?|غير"
        r"|الأفضل|بعد الآن",
        adding=r"أيضا|كذلك|بالإضافة",
        no_rule=r"لا (?:أعرف|أذكر|أتذكر|أفهم|أستطيع|أجد|أرى|مشكلة)",
    ),
}
"""By language, the cue words of scripts that put spaces between words: a cue word is a whole word of the text."""

UNSPACED: Mapping[str, Cues] = {
    "zh": Cues(
        limit=r"只[订买坐住吃喝付发写说去选收走]",
        revoking=r"想了想|仔细想想|再三考虑|又考虑|重新考虑|改变主意|改主意|之前说的|刚才说的|前面说的"
        r"|之前的(?:要求|规定|说法|指示|限制)"
        r"|忘[了掉记]?(?:我|之前|刚才)|忽略(?:我|之前|刚才|前面)|收回|撤回|撤销|取消(?:之前|刚才"
        r"|这[个条]|那[个条])|作废|算了"
        r"|不再(?:需要|适用|有效|要求)|后来发现|原来|还是.{0,12}(?:吧|好了)|不算数|我说错了|更正",
        changing=r"其实|从现在[起开]|以后|今后|现在|改[用为成订坐]|换成|改变|不用再?|不再|不必|无所谓|没关系"
        r"|都行|也行|可以|也好"
        r"|没问题|随时|允许|更方便|更好|新的|上限|放宽|提高到|降到|而是|代替|能打|都能|倒是",
        adding=r"另外|还要|此外|并且|而且",
    ),
    "ja": Cues(
        duty=r"必ず|絶対|決して|けっして|常に|いつも|なければ(?:なりません|ならない|いけません|いけない)"
        r"|ねばな|べき|禁止|厳禁"
        r"|(?:ては|では|ちゃ)(?:いけ|なりません|ならない|だめ|駄目|困)|てはいけ|ないでください"
        r"|ないで(?:ね|下さい|ほしい|欲しい)"
        r"|しないこと|するな[。！]?$|必要があ|必須|以内|以下|以上|まで(?:に|とし)|最大|最低|今後は"
        r"|これからは|勝手に|ないよう",
        limit=r"お願いします|困り|困る|結構です|にします|"
        r"ないこと|はしません|(?:乗|飲|食べ|吸|使|買|泊ま)[りいみわべ]?ません|そのまま|厳守|不可|未満|超え|なしで|やめて|"
        r"だけ|のみ|しか|避け|控え|好き|好み|たくな"
        r"|てほしい|て欲しい|優先|すべて|全て|全部|毎回|ごとに|予算|上限|下限|限り"
        r"|代わりに|ではなく|以外|除[いくき]|前に|アレルギー|ベジタリアン|ビーガン|内緒|秘密|重要"
        r"|大事|呼んで|にしてください"
        r"|でお願い|てください|て下さい|ないように|嫌[いだで]",
        wish=r"ください|下さい|お願い|ほしい|欲しい|たいです|希望|いただけ",
        revoking=r"やっぱり|やはり|よく考え|考え直|考えてみ|考えが変わ|気が変わ|忘れて|無視して|取り消|取消"
        r"|撤回|さっきの|先ほどの"
        r"|前(?:に|の)(?:言っ|指示|お願い|話|ルール)|以前の|実は|結局|もう(?:不要|いい|大丈夫|必要な)|訂正",
        changing=r"実際|これから|今後|今は|代わりに|変更|変えて|切り替え|やめて|もう|なくても(?:いい|よい"
        r"|大丈夫|構)|でも(?:いい|よい)"
        r"|大丈夫|構いません|かまいません|問題ありません|問題ない|助かります|ほうが|方が|いつでも"
        r"|新しい|OK|許可",
        adding=r"また、|さらに|加えて|それと|ついでに",
        no_rule=r"(?:分かり|わかり|知り|覚えてい|思い出せ|見つかり|届い)\w{0,3}(?:ません|ない)|問題ありません",
    ),
    "ko": Cues(
        duty=r"반드시|절대|꼭|항상|언제나|결코|무조건|금지|하지 ?(?:마|말)|지 ?(?:마세요|말아|마십시오"
        r"|마라|마$|말 ?것)"
        r"|(?:으면|면) ?안 ?(?:돼|됩|된|되)|(?:해|아|어|여|라)야 ?(?:합|해|하|만|돼|됩)|물어봐야"
        r"|필수|의무|이상|이하|최대|최소|앞으로는"
        r"|지금부터|없이는|허락 ?없이",
        limit=r"세요|부탁|않을|"
        r"(?:으로|로)만|(?:하지|타지|먹지|마시지|쓰지|사지) ?않(?:습니다|아요)|그대로|미만|초과|"
        r"만 ?(?:사용|써|쓰|가능|예약|보내)|만 |오직|오로지|피해|삼가|싫|원하지|선호"
        r"|모든|모두|전부|매번|마다|예산|한도|이내|까지"
        r"|대신|제외|빼고|전에|알레르기|채식|비건|비밀|중요|정확히|불러|넘지|않(?:게|도록|았으면)|좋겠",
        wish=r"주세요|주십시오|부탁|바랍니다|원합니다|싶습니다|싶어요|해줘|필요합니다",
        revoking=r"다시 ?생각|생각해 ?보니|생각이 ?바뀌|마음이 ?바뀌|잊어|무시|취소|철회|아까|이전"
        r"|전에 ?(?:말|한|했)|알고 ?보니|역시|결국",
        changing=r"사실|이제|앞으로|지금부터|대신|바꿔|바꾸|변경|더 ?이상|괜찮|상관없|상관 ?없|해도 ?(?:돼"
        r"|됩)|도 ?(?:돼|됩|좋)"
        r"|필요 ?없|안 ?(?:해|하셔)도|새로운|가능|편합|낫",
        adding=r"또한|그리고 ?또|추가로|게다가",
        no_rule=r"(?:모르|기억나지|기억이 안|찾을 수 없|이해가 안)",
    ),
    "hi": Cues(
        duty=r"कभी (?:न|मत|भी (?:न|मत))|मत |हमेशा|ज़रूर|जरूर|अनिवार्य|चाहिए|होगा|पड़ेगा|मना है|वर्जित"
        r"|सख्त|बिल्कुल न|हरगिज"
        r"|कम से कम|ज़्यादा से ज़्यादा|अधिकतम|न्यूनतम|अब से|आगे से|बिना पूछे|न करें|न भेज|सुनिश्चित"
        r"|किसी भी (?:हाल|सूरत)",
        limit=r"से ऊपर|तक ही|ही चाहि|शर्त|ध्यान रख|कतई|रहने द|"
        r"नहीं (?:खात|पीत|लेत|जात|देत|उड़त)|(?:सफ़र|सफर|यात्रा) नहीं|"
        r"केवल|सिर्फ|सिर्फ़|बस |पसंद|बेहतर|बचें|नहीं चाहि|नहीं चाहत|हर |सभी|सब |सीमा|बजट|से कम"
        r"|से ज़्यादा|से अधिक|के बजाय|की जगह"
        r"|को छोड़कर|जब तक|से पहले|के अंदर|एलर्जी|शाकाहारी|गोपनीय|महत्वपूर्ण|ठीक ",
        wish=r"कृपया|प्लीज़|चाहता|चाहती|निवेदन|मेहरबानी|दीजिए|करें",
        revoking=r"सोचने पर|सोच कर|सोचकर|मन बदल|विचार बदल|भूल जा|अनदेखा|जो (?:मैंने )?कहा|पहले (?:वाल|जो|का"
        r"|की)|रद्द|आखिर|पता चला",
        changing=r"असल में|दरअसल|अब |बजाय|की जगह|ठीक है|चलेगा|सकते|सकता|ज़रूरत नहीं|कोई फर्क नहीं|नया|नई|बदल",
        adding=r"भी |साथ ही|इसके अलावा",
        no_rule=r"(?:पता नहीं|याद नहीं|मालूम नहीं|समझ नहीं|नहीं मिल|कोई बात नहीं)",
    ),
    "th": Cues(
        duty=r"ห้าม|ต้อง|อย่า|เสมอ|เด็ดขาด|จำเป็น|ไม่ควร|ไม่เกิน|อย่างน้อย|อย่างมาก|มากที่สุด|ทุกครั้ง"
        r"|ต่อไปนี้|นับจากนี้|ไม่อนุญาต|บังคับ",
        limit=r"ไม่เอา|งด|"
        r"เฉพาะ|เท่านั้น|เพียง|แค่|ควร|ชอบ|เลี่ยง|ไม่ต้องการ|ไม่อยาก|ทุก|ทั้งหมด|งบ|จำกัด|น้อยกว่า"
        r"|มากกว่า|แทน|ยกเว้น"
        r"|ก่อน|ภายใน|แพ้|มังสวิรัติ|เจ|ความลับ|สำคัญ|เรียกผม|เรียกฉัน",
        wish=r"กรุณา|โปรด|ช่วย|ขอ|อยาก|ต้องการ",
        revoking=r"คิดอีกที|คิดดู|เปลี่ยนใจ|ลืม|ไม่ต้องสนใจ|ที่(?:ผม|ฉัน)?(?:บอก|พูด)|ก่อนหน้านี้|ยกเลิก"
        r"|ปรากฏว่า|ที่จริง",
        changing=r"จริง ๆ|จริงๆ|ตอนนี้|จากนี้|ต่อไปนี้|แทน|อีกแล้ว|อีกต่อไป|ก็ได้|ได้เลย|ไม่เป็นไร|ไม่ต้อง"
        r"|ใหม่|เปลี่ยน|ดีกว่า|สะดวกกว่า",
        adding=r"ด้วย|นอกจากนี้|อีกอย่าง",
        no_rule=r"(?:ไม่รู้|ไม่ทราบ|จำไม่ได้|ไม่แน่ใจ|ไม่เข้าใจ|ไม่เป็นไร)",
    ),
}
"""By language, the cue words of scripts that do not, or whose endings are written together with the cue word."""
